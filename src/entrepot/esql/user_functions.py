# SPDX-License-Identifier: Apache-2.0
"""Calls of Python functions that users bring along: for Python nodes, and behind routines of ESQL.

Such a function may raise what is meant to end a process (SystemExit,
KeyboardInterrupt, GeneratorExit), and may never return. Called from here it
either returns or raises an Exception, so that what it does is the failure of
its message and of no other.

Time is limited by SIGALRM, which Python delivers to its main thread: that is
where Spark runs an instance. It interrupts loops, sleeps, locks, sockets and
regular expressions. Code in C that never returns to Python is left to the
process's own end (`flows/live/worker_process.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from entrepot.errors import FunctionAborted, FunctionTimedOut
from entrepot.errors.describing import error_text

TIME_S_MAX = 60.0
"""How long a call may take, unless its node says otherwise."""
_STRIKE_AGAIN_S = 1.0
"""A function that catches everything is interrupted again after so long."""
_AT_ONCE_S = 1e-6


class FlowControl(BaseException):
    """Leaves a flow in the middle of a message, which has not failed: no function or node may take it for an error."""


class _OutOfTime(BaseException):
    """Raised inside a function whose time is up; `except Exception` there does not keep it."""


def call_user_function(function: Callable[..., Any], name: str, *arguments: Any, time_s: float = TIME_S_MAX) -> Any:
    """What a function returns; what it raises, if that is an Exception.

    `time_s` 0 is no limit. Outside of the main thread there is none either.

    Raises:
        FunctionTimedOut: It took longer than it may, and was interrupted.
        FunctionAborted: It raised what would end the process.
        KeyboardInterrupt: This process was interrupted, not only the function.
    """
    alarm = _Alarm(time_s) if time_s > 0 and threading.current_thread() is threading.main_thread() else None
    process = os.getpid()
    try:
        if alarm is None:
            return function(*arguments)
        try:
            alarm.start()
            return function(*arguments)
        finally:
            alarm.is_active = False
    except _OutOfTime:
        raise FunctionTimedOut(name, time_s) from None
    except (Exception, FlowControl):
        raise
    except BaseException as error:
        raise as_failure(error, name) from error
    finally:
        if os.getpid() != process:
            # The function has forked, and this is its child: two processes must not go on with one unit of work.
            os._exit(1)
        if alarm is not None:
            alarm.stop()


def as_failure(error: BaseException, name: str = "a value of a user's function") -> Exception:
    """An error as the failure of one message.

    Raises:
        KeyboardInterrupt: It is the process that is interrupted.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, KeyboardInterrupt) and _is_interrupted():
        raise error
    event = f"exit with {error_text(error)}" if isinstance(error, SystemExit) else f"raise {_named(error)}"
    return FunctionAborted(name, event)


def _named(error: BaseException) -> str:
    name, text = type(error).__name__, error_text(error)
    return name if text == name else f"{name}: {text}"


# --- time ---------------------------------------------------------------------------------------------


class _Alarm:
    """The time of one call; calls may lie within each other, and within whatever else uses SIGALRM."""

    innermost: _Alarm | None = None

    def __init__(self, time_s: float) -> None:
        self._time_s = time_s
        self.is_active = False
        self._is_started = False
        self._before: tuple[Any, float, float] = (None, 0.0, 0.0)
        self._outer: _Alarm | None = None
        self._started_at = 0.0

    def start(self) -> None:
        self._started_at = time.monotonic()
        self._outer, _Alarm.innermost = _Alarm.innermost, self
        handler = signal.getsignal(signal.SIGALRM)
        self._before = (handler, *signal.setitimer(signal.ITIMER_REAL, 0.0))
        self._is_started = True
        signal.signal(signal.SIGALRM, self._strike)
        self.is_active = True
        signal.setitimer(signal.ITIMER_REAL, self._time_s, _STRIKE_AGAIN_S)

    def _strike(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.is_active:
            raise _OutOfTime

    def stop(self) -> None:
        """Leave the timer as it was found, less the time that has gone by."""
        self.is_active = False
        if not self._is_started:
            return
        self._is_started = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        handler, delay_s, interval_s = self._before
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        _Alarm.innermost = self._outer
        if delay_s:
            left_s = delay_s - (time.monotonic() - self._started_at)
            signal.setitimer(signal.ITIMER_REAL, max(left_s, _AT_ONCE_S), interval_s)


@contextlib.contextmanager
def own_code() -> Iterator[None]:
    """Code of ours that a user's function has called: its clock stands still, so that nothing of ours is cut short."""
    alarm = _Alarm.innermost if threading.current_thread() is threading.main_thread() else None
    if alarm is None:
        yield
        return
    alarm.is_active = False
    left_s, again_s = signal.setitimer(signal.ITIMER_REAL, 0.0)
    try:
        yield
    finally:
        alarm.is_active = True
        signal.setitimer(signal.ITIMER_REAL, max(left_s, _AT_ONCE_S), again_s or _STRIKE_AGAIN_S)


# --- interrupts ---------------------------------------------------------------------------------------

_watches = 0
_interrupted = False


@contextlib.contextmanager
def watching_interrupts() -> Iterator[None]:
    """Tell SIGINT from a KeyboardInterrupt that a function raises by itself, for as long as the block lasts."""
    global _watches, _interrupted
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    previous = before

    def note(number: int, frame: FrameType | None) -> None:
        global _interrupted
        _interrupted = True
        previous(number, frame)

    signal.signal(signal.SIGINT, note)
    _watches += 1
    try:
        yield
    finally:
        _watches -= 1
        _interrupted = False
        signal.signal(signal.SIGINT, before)


def _is_interrupted() -> bool:
    """Whether a KeyboardInterrupt is the process's affair. Without a watcher, Ctrl-C is the likelier cause."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return _interrupted or not _watches
