# SPDX-License-Identifier: Apache-2.0
"""Functions that users bring along: whatever they raise, and however long they take, is their own message's failure."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from entrepot.errors import FunctionAborted, FunctionTimedOut
from entrepot.esql import user_functions
from entrepot.esql.user_functions import FlowControl, as_failure, call_user_function, own_code, watching_interrupts

SOON_S = 0.05
LATE_S = 60.0


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def function() -> NoReturn:
        raise error

    return function


class Odd(BaseException):
    def __str__(self) -> str:
        raise SystemExit(1)


def in_a_thread(work: Callable[[], None]) -> BaseException | None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors[0] if errors else None


def test_what_would_end_the_process_is_an_exception() -> None:
    found = {}
    with watching_interrupts():
        for error in (SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Odd()):
            with pytest.raises(FunctionAborted) as caught:
                call_user_function(raising(error), "price")
            found[type(error).__name__] = caught.value.what
    assert found == {
        "SystemExit": "price wanted to exit with 3",
        "KeyboardInterrupt": "price wanted to raise KeyboardInterrupt",
        "GeneratorExit": "price wanted to raise GeneratorExit",
        "CancelledError": "price wanted to raise CancelledError",
        "Odd": "price wanted to raise Odd",
    }


def test_exceptions_and_what_leaves_a_flow_on_purpose_pass() -> None:
    for error in (ValueError("seven"), MemoryError(), RecursionError(), FlowControl()):
        with pytest.raises(type(error)) as caught:
            call_user_function(raising(error), "price")
        assert caught.value is error


def test_an_interrupt_of_the_process_is_not_taken_for_the_functions() -> None:
    def meets_a_signal() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(LATE_S)

    before = signal.getsignal(signal.SIGINT)
    with watching_interrupts(), pytest.raises(KeyboardInterrupt):
        call_user_function(meets_a_signal, "price")
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        call_user_function(raising(KeyboardInterrupt()), "price")  # where nobody watches it may be Ctrl-C


def test_in_another_thread_no_interrupt_is_the_processs() -> None:
    error = in_a_thread(lambda: call_user_function(raising(KeyboardInterrupt()), "price"))
    assert isinstance(error, FunctionAborted)
    assert isinstance(as_failure(GeneratorExit()), FunctionAborted)


def endless() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    "function",
    [
        endless,
        lambda: time.sleep(LATE_S),
        lambda: threading.Event().wait(),
        lambda: re.match(r"(a+)+$", "a" * 64 + "b"),
        lambda: os.read(os.pipe()[0], 1),
    ],
    ids=["loop", "sleep", "wait", "regular expression", "read"],
)
def test_a_function_that_does_not_return_is_interrupted(function: Callable[[], Any]) -> None:
    with pytest.raises(FunctionTimedOut, match=r"price did not return within 0.05 s"):
        call_user_function(function, "price", time_s=SOON_S)


def test_a_function_that_catches_everything_is_interrupted_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_functions, "_STRIKE_AGAIN_S", SOON_S)
    caught: list[BaseException] = []

    def deaf() -> None:
        while len(caught) < 3:
            try:
                endless()
            except BaseException as error:
                caught.append(error)

    call_user_function(deaf, "price", time_s=SOON_S)
    assert len(caught) == 3


def test_time_in_what_it_has_called_of_ours_does_not_count_and_the_rest_does() -> None:
    def sends() -> None:
        for _ in range(5):
            with own_code():
                time.sleep(2 * SOON_S)

    call_user_function(sends, "price", time_s=SOON_S * 1.5)

    def sends_and_stays() -> None:
        sends()
        endless()

    with pytest.raises(FunctionTimedOut):
        call_user_function(sends_and_stays, "price", time_s=SOON_S * 3)


def test_calls_within_calls_have_their_own_time() -> None:
    def outer() -> None:
        with own_code(), pytest.raises(FunctionTimedOut, match="inner"):
            call_user_function(endless, "inner", time_s=SOON_S)
        endless()

    with pytest.raises(FunctionTimedOut, match="outer"):
        call_user_function(outer, "outer", time_s=SOON_S)


def test_an_alarm_that_was_set_before_is_as_it_was() -> None:
    rung = threading.Event()
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.set())
    before = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(FunctionTimedOut):
            call_user_function(endless, "price", time_s=SOON_S)
        assert not rung.is_set()
        assert rung.wait(LATE_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
        signal.signal(signal.SIGALRM, handler)


def test_a_child_that_a_function_has_forked_does_not_go_on_with_our_work() -> None:
    children: list[int] = []

    def forks() -> str:
        child = os.fork()
        if child:
            children.append(child)
        return "done"

    assert call_user_function(forks, "price") == "done"
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 1
