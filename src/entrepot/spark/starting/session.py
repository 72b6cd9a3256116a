# SPDX-License-Identifier: Apache-2.0
"""A session, from Java's start to its end.

    with spark_session(app="orders", long_tasks=2) as spark:
        spark.sparkContext.parallelize(...)

A process has at most one session, as Spark wants it. A program that has a session
already passes that one on to flows instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrepot.errors import SparkMasterUnreachable, SparkNotStarted, SparkSessionOpen
from entrepot.spark.starting.driver import Driver
from entrepot.spark.starting.folders import private_folder
from entrepot.spark.starting.java import find_java
from entrepot.spark.starting.launching import last_words, spark_home
from entrepot.spark.starting.settings import all_settings, local_master, require_master, stays_here

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM that starts and watches Python tasks and does no work itself: it compiles less and collects alone."""

_REACH_S = 5.0
_EXERCISE_S = 20.0
_opening = threading.Lock()
_driver: Driver | None = None


def open_session(
    master: str | None = None,
    *,
    app: str,
    settings: Mapping[str, str] | None = None,
    long_tasks: int = 0,
    light: bool = False,
    preload: Sequence[str] = ("pandas", "pyarrow"),
    log: Path | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> SparkSession:
    """Start Spark and return its session, ready for queries; arguments and errors are those of `open_context`."""
    context = open_context(
        master,
        app=app,
        settings=settings,
        long_tasks=long_tasks,
        light=light,
        preload=preload,
        log=log,
        on_progress=on_progress,
    )
    on_progress("opening the session")
    from pyspark.sql import SparkSession

    return SparkSession(context)


def open_context(
    master: str | None = None,
    *,
    app: str,
    settings: Mapping[str, str] | None = None,
    long_tasks: int = 0,
    light: bool = False,
    preload: Sequence[str] = (),
    log: Path | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> SparkContext:
    """Start Spark for jobs of Python tasks; a session, for queries, takes a second more and can be had later.

    Without a master all of it runs on this machine, with a slot for each of `long_tasks` and more besides, reachable
    from nowhere else. `settings` come before ours. `light` is for sessions whose Python tasks do the work; `preload`
    are modules that every worker on this machine finds imported. What Spark prints goes to `log`, else to a file that
    `session_log` names and that goes with the session.

    Raises:
        ExtraMissing, JavaNotFound, JavaTooOld, JavaUnusable: Something has to be installed first.
        SparkSessionOpen: This process has one already.
        SparkMasterUnreachable: There is no cluster at the master's address.
        SparkNotStarted: Java or Spark refused; the error says why.
    """
    master = master or local_master(long_tasks)
    require_master(master)
    with _opening:
        spark_home()
        _reach(master)
        _refuse_second()
        on_progress("looking for Java")
        java = find_java()
        on_progress(f"starting Java {java.version}")
        folder = private_folder("spark")
        chosen = all_settings(master, app, settings or {}, folder, preload)
        driver = Driver(java, chosen, folder, log or folder / "log", LIGHT if light else ())
        try:
            return _context(driver, chosen, on_progress)
        except BaseException:
            _let_go(driver)
            raise


@contextlib.contextmanager
def spark_session(master: str | None = None, *, app: str, **options: Any) -> Iterator[SparkSession]:
    """A session for as long as the block lasts; arguments as for `open_session`."""
    spark = open_session(master, app=app, **options)
    try:
        yield spark
    finally:
        close_session(spark)


def close_session(spark: SparkSession | SparkContext) -> None:
    """Stop a session or context of ours and end its JVM. Running jobs are cancelled."""
    with _opening:
        if _driver is not None and _driver.is_recording:
            _exercise(spark)
        with contextlib.suppress(Exception):  # its JVM may be gone
            spark.stop()
        if _driver is not None:
            _let_go(_driver)


def session_log() -> Path | None:
    """Where this process's Spark, and its workers, leave their errors; None if no session of ours is open."""
    return _driver.log if _driver is not None else None


# --- starting -----------------------------------------------------------------------------------------


def _context(driver: Driver, settings: Mapping[str, str], on_progress: Callable[[str], None]) -> SparkContext:
    global _driver
    # Half a second of imports, while Java starts.
    from pyspark import SparkConf, SparkContext

    port, secret = driver.answered()
    _driver = driver
    on_progress(f"starting Spark at {settings['spark.master']}")
    found = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    if stays_here(settings["spark.master"]):
        # Elsewhere our interpreter's path may mean nothing.
        found["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    with _environment_with(found), _own_interrupts():
        try:
            return SparkContext(conf=conf)
        except Exception as error:
            raise SparkNotStarted(_reason(error), driver.words()) from error


def _refuse_second() -> None:
    context = _active_context()
    if context is not None:
        raise SparkSessionOpen(context.master or "a master of its own")
    if _driver is not None:
        _let_go(_driver)


def _active_context() -> SparkContext | None:
    loaded = sys.modules.get("pyspark")
    context: SparkContext | None = loaded.SparkContext._active_spark_context if loaded is not None else None
    return context


def _reach(master: str) -> None:
    """Refuse a cluster that is not there; Spark itself would try for a minute."""
    if not master.startswith("spark://"):
        return
    problem = ""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
        except (OSError, ValueError) as error:
            problem = str(error)
        else:
            return
    raise SparkMasterUnreachable(master, problem)


def _reason(error: Exception) -> str:
    """What Spark says, without Java's stack."""
    java = getattr(error, "java_exception", None)
    return last_words(str(java.toString()) if java is not None else str(error), lines_max=1)


@contextlib.contextmanager
def _environment_with(more: Mapping[str, str]) -> Iterator[None]:
    """Pyspark reads these when it starts; a child of ours that starts pyspark itself must not find them."""
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep what the program does at Ctrl-C: Spark would cancel all jobs, where a flow is to stop in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- ending -------------------------------------------------------------------------------------------


def _exercise(spark: SparkSession | SparkContext) -> None:
    """Let Java load what most sessions need, so that the archive has it even if this session ran next to nothing."""
    worker = threading.Thread(target=_small_jobs, args=(spark,), daemon=True)
    worker.start()
    worker.join(_EXERCISE_S)


def _small_jobs(spark: SparkSession | SparkContext) -> None:
    from pyspark import SparkContext

    context = spark if isinstance(spark, SparkContext) else spark.sparkContext
    with contextlib.suppress(Exception):
        context.cancelAllJobs()
        context.parallelize(range(2), 2).mapPartitionsWithIndex(_rows_unchanged).count()
        if not isinstance(spark, SparkContext):
            frame = spark.range(2).mapInArrow(_batches_unchanged, "id long")
            frame.selectExpr("sum(id) AS total").collect()


def _rows_unchanged(_: int, rows: Iterable[Any]) -> Iterable[Any]:
    return rows


def _batches_unchanged(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _let_go(driver: Driver) -> None:
    """End the JVM, and let pyspark forget it, so that the next session starts another."""
    global _driver
    loaded = sys.modules.get("pyspark")
    if loaded is not None and loaded.SparkContext._gateway is not None:
        with contextlib.suppress(Exception):
            loaded.SparkContext._gateway.shutdown()
        loaded.SparkContext._gateway = None
        loaded.SparkContext._jvm = None
    driver.end()
    driver.forget()
    _driver = None
