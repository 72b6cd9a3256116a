# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.engine.settlement import Settlement
from entrepot.errors import DiskFailed, DiskFull, EntrepotError, UnitBackedOut


def settlement(happened: list[str]) -> Settlement:
    def undo(error: EntrepotError) -> EntrepotError:
        happened.append("undone")
        return UnitBackedOut(1, error.what)

    made = Settlement(100, lambda: happened.append("applied"), undo)
    made.wake = lambda: happened.append("woken")
    return made


def test_forced_settlement_happens() -> None:
    happened: list[str] = []
    made = settlement(happened)
    assert not made.done
    made.settle()
    assert (made.done, made.error, happened) == (True, None, ["applied", "woken"])


def test_refused_settlement_is_undone_and_says_what_that_means() -> None:
    happened: list[str] = []
    made = settlement(happened)
    made.fail(DiskFull("/"))
    assert isinstance(made.error, UnitBackedOut)
    assert happened == ["undone", "woken"]


def test_abandoned_settlement_is_neither_done_nor_undone() -> None:
    happened: list[str] = []
    made = settlement(happened)
    error = DiskFailed("/", "I/O error")
    made.abandon(error)
    assert (made.done, made.error, happened) == (True, error, ["woken"])
