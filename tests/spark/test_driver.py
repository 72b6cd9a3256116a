# SPDX-License-Identifier: Apache-2.0
"""Spark's JVM alone, without a session in it: quick enough to start it several times."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from channels.processes import until
from entrepot.errors import SparkNotStarted
from entrepot.spark.starting import driver as driver_module
from entrepot.spark.starting.driver import Driver
from entrepot.spark.starting.java import find_java
from entrepot.spark.starting.session import LIGHT
from entrepot.spark.starting.settings import all_settings


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "entrepot" / "spark"


def _driver(tmp_path: Path, **settings: str) -> Driver:
    chosen = all_settings("local[2,4]", "tests", settings, tmp_path)
    return Driver(find_java(), chosen, tmp_path, tmp_path / "log", LIGHT)


def _run_once(tmp_path: Path) -> Driver:
    driver = _driver(tmp_path)
    port, secret = driver.answered()
    assert port > 0
    assert len(secret) >= 32
    driver.end()
    return driver


def _is_free(lock: Path) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_first_start_records_what_the_second_uses_and_a_damaged_one_is_left_out(tmp_path: Path, cache: Path) -> None:
    assert _run_once(tmp_path).is_recording
    (lock,) = cache.glob("*.lock")
    until(lambda: _is_free(lock), "the first JVM has written its archive", within_s=60)

    assert not _run_once(tmp_path).is_recording
    (archive,) = cache.glob("*.jsa")
    assert not list(cache.glob("*.new"))

    # Its head says what it is, its end is the half that a full disk would have cut off.
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.truncate(archive.stat().st_size // 2)
    assert not _run_once(tmp_path).is_recording
    assert not archive.exists(), "the next start records another"


def test_file_that_is_no_archive_is_left_out(tmp_path: Path, cache: Path) -> None:
    driver = _driver(tmp_path)
    assert driver._archive is not None
    path = driver._archive.path
    driver.process.kill()
    driver.process.wait()
    path.write_bytes(b"no archive" * 1000)

    assert not _run_once(tmp_path).is_recording
    assert not path.exists()


def test_java_that_refuses_its_options_is_reported_with_its_words(tmp_path: Path, cache: Path) -> None:
    driver = _driver(tmp_path, **{"spark.driver.memory": "1k"})
    with pytest.raises(SparkNotStarted, match=r"Java ended with 1.*Too small maximum heap"):
        driver.answered()


def test_java_that_has_not_answered_is_killed_when_its_start_is_given_up(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "_START_S", 0.0)
    driver = _driver(tmp_path)
    assert driver.is_recording
    with pytest.raises(SparkNotStarted, match="no answer within 0 s"):
        driver.answered()
    assert driver.process.returncode == -signal.SIGKILL


def test_java_whose_starter_is_killed_ends_by_itself(tmp_path: Path, cache: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from entrepot.spark.starting.driver import Driver
from entrepot.spark.starting.java import find_java
from entrepot.spark.starting.settings import all_settings

folder = Path({str(tmp_path)!r})
driver = Driver(find_java(), all_settings("local[2,4]", "tests", {{}}, folder), folder, folder / "log", {LIGHT!r})
print(driver.process.pid, flush=True)
time.sleep(3600)
"""
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    java = Path("/proc") / starter.stdout.readline().strip()
    starter.kill()
    starter.wait()
    until(lambda: not java.exists(), "Java ends", within_s=100)


def test_setting_that_the_launcher_refuses_is_reported_with_its_words(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(SparkNotStarted, match=r"launcher refuses.*Not allowed to specify max heap"):
        _driver(tmp_path, **{"spark.driver.extraJavaOptions": "-Xmx1g"})
