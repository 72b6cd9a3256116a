# SPDX-License-Identifier: Apache-2.0
"""Spark and the flows in a process tree of their own, which a leader that must not hold threads can rule.

    with Engine(folder, tasks=2) as engine, engine.deployed(wanted):
        engine.pids                     # all of it: driver, Java, Python's daemon and the instances

The child reads one JSON line a command and writes one JSON line an answer;
it ends when its input does, and is killed with the leader. What Spark says
goes to engine.log.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, Self

import msgspec

from entrepot.errors import EntrepotError, SystemFailed
from entrepot.workbench.broker.deploying import Deployed, DeploymentRequest, deployed
from entrepot.workbench.systems.processes import descendants

NAME = "the engine of the flows"
START_S = 120.0
ANSWER_S = 120.0
END_S = 30.0


class FlowsAtWork(Protocol):
    """What the load asks of whatever runs the flows."""

    def deployed(self, wanted: DeploymentRequest) -> contextlib.AbstractContextManager[None]: ...

    @property
    def pids(self) -> Sequence[int]:
        """Processes whose CPU time is the flows'; of a Spark that is shared, the instances alone."""

    def problem(self) -> str: ...


class Engine:
    """The child, as the leader sees it."""

    def __init__(self, folder: Path, *, tasks: int) -> None:
        self._log = folder / "engine.log"
        self._tasks = tasks

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", __name__, str(self._tasks)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            self._answer(START_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @contextlib.contextmanager
    def deployed(self, wanted: DeploymentRequest) -> Iterator[None]:
        """
        Raises:
            SystemFailed: It does not run, or the engine has died; says why.
        """
        self._ask({"deploy": msgspec.to_builtins(wanted)})
        try:
            yield
        finally:
            with contextlib.suppress(SystemFailed):
                self._ask({"stop": True})

    @property
    def pids(self) -> list[int]:
        return descendants(self._process.pid)

    def problem(self) -> str:
        """What is not as it was when the flows began; empty while all is well."""
        try:
            return str(self._ask({"problem": True})["problem"])
        except SystemFailed as error:
            return error.problem

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # reading its answer tells
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")
            self._process.stdin.flush()
        return self._answer(ANSWER_S)

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        line = self._process.stdout.readline() if readable else b""
        if not line:
            what = "has ended" if readable else f"did not answer within {timeout_s:.0f} s"
            raise SystemFailed(NAME, f"{what}:\n{self._log.read_text(errors='replace')[-2000:]}")
        answer: dict[str, Any] = msgspec.json.decode(line)
        if "error" in answer:
            raise SystemFailed(NAME, str(answer["error"]))
        return answer

    def _end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        family = descendants(self._process.pid)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            # It is ours, and so is what it started; no other process would end Java.
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            self._process.wait()
        self._process.stdout.close()


# --- the child -----------------------------------------------------------------------------------------


def main(tasks: int, commands: IO[bytes], answers: IO[bytes]) -> None:
    from entrepot.spark.starting.session import close_session, open_context

    def answer(values: dict[str, Any]) -> None:
        answers.write(msgspec.json.encode(values) + b"\n")
        answers.flush()

    begun = time.monotonic()
    try:
        context = open_context(long_tasks=tasks, app="workbench", light=True, preload=("entrepot.flows.live.instance",))
    except EntrepotError as error:
        answer({"error": str(error)})
        return
    answer({"started_s": time.monotonic() - begun})
    try:
        _serve(context, commands, answer)
    finally:
        close_session(context)


def _serve(context: Any, commands: IO[bytes], answer: Any) -> None:
    with contextlib.ExitStack() as outer:
        stack, running = outer.enter_context(contextlib.ExitStack()), Deployed()
        for line in commands:
            command = msgspec.json.decode(line)
            try:
                if "deploy" in command:
                    running = stack.enter_context(
                        deployed(context, msgspec.convert(command["deploy"], DeploymentRequest))
                    )
                    answer({"pids": running.pids})
                elif "stop" in command:
                    stack.close()
                    answer({})
                else:
                    answer({"problem": running.problem()})
            except EntrepotError as error:
                answer({"error": str(error)})


if __name__ == "__main__":
    # What Spark or a library prints must not stand between the answers.
    own_answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    main(int(sys.argv[1]), sys.stdin.buffer, own_answers)
