# SPDX-License-Identifier: Apache-2.0
"""The JVM that a session lives in: started, waited for, ended.

It ends by itself when our end of its standard input closes, which the kernel
does for us however we end. What it prints goes to a file in its folder, which
also holds the sockets to Python's workers and is readable by no other user.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from entrepot.errors import SparkNotStarted
from entrepot.spark.starting.class_archive import ClassArchive
from entrepot.spark.starting.java import Java
from entrepot.spark.starting.launching import (
    DRIVER,
    driver_arguments,
    java_command,
    last_words,
    spark_environment,
    with_options,
)

_START_S = 120.0
_END_S = 20.0
_LOOK_S = 0.005


class Driver:
    """Spark's JVM as a child of this process."""

    def __init__(
        self, java: Java, settings: Mapping[str, str], folder: Path, log: Path, options: Sequence[str]
    ) -> None:
        self.folder = folder
        self.log = log
        self.is_recording = False
        self._has_answered = False
        self._connection = folder / "connection"
        self._environment = {
            **spark_environment(java),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection),
        }
        quiet = f"-Dlog4j2.configurationFile={files('entrepot.spark.starting').joinpath('log4j2.properties')}"
        command = java_command(java, self._environment, DRIVER, driver_arguments(settings))
        self._command = with_options(command, [quiet, *options])
        # "local", "spark", "yarn": a driver of a cluster loads none of the classes that run tasks.
        self._archive = ClassArchive.for_command(
            java, self._command, settings["spark.master"].partition("[")[0].partition(":")[0]
        )
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._archive is None:
            return self._popen([])
        with self._archive.held() as lock:
            if self._archive.is_there:
                return self._popen(self._archive.using)
            if lock is None:
                return self._popen([])
            self.is_recording = True
            return self._popen(self._archive.recording, keep=[lock])

    def _popen(self, options: Sequence[str], keep: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                with_options(self._command, [f"-XX:ErrorFile={self.folder / 'crash'}", *options]),
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=keep,
                # Ctrl-C in a terminal is for us: when a flow is stopped, its tasks finish what they have begun.
                process_group=0,
            )

    def answered(self) -> tuple[int, str]:
        """Wait until it can be talked to; its port, and the secret that opens it.

        Raises:
            SparkNotStarted: It ended, or did not answer in time.
        """
        try:
            return self._answer()
        except SparkNotStarted:
            if self._archive is None or not self._archive.is_there:
                raise
            # An archive whose inside is damaged can bring down Java; without it there is still a slow start.
            self._archive.discard()
            self.end()
            self.process = self._popen([])
            return self._answer()

    def _answer(self) -> tuple[int, str]:
        deadline = time.monotonic() + _START_S
        while not self._connection.exists():
            if self.process.poll() is not None:
                raise SparkNotStarted(f"Java ended with {self.process.returncode}", self.words())
            if time.monotonic() > deadline:
                self.end()
                raise SparkNotStarted(f"no answer within {_START_S:.0f} s", self.words())
            time.sleep(_LOOK_S)
        # Spark moves the file into its place when it is whole: a length-prefixed secret behind the port.
        answer = self._connection.read_bytes()
        self._has_answered = True
        self._connection.unlink()
        if self._archive is not None and self._archive.is_there and not self.is_recording:
            self._archive.settle(self.process.pid)
        return int.from_bytes(answer[:4], "big"), answer[8:].decode()

    def words(self) -> str:
        """The last it has said."""
        with contextlib.suppress(OSError):
            return last_words(self.log.read_text(errors="replace"))
        return "nothing"

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """End it and tidy up. One that records is left alone with writing its archive, which takes a while."""
        assert self.process.stdin is not None
        if not self._has_answered:
            # Whether it ever looks at its standard input is not known: one that hangs would stay for ever.
            self.process.kill()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if not (self.is_recording and self._has_answered):
            try:
                self.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def forget(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
