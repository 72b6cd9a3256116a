# SPDX-License-Identifier: Apache-2.0
"""Whose fault an error is: a message's, an outage's or a neighbour's. And the files that Trace nodes write."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    DatabaseFailed,
    EntrepotError,
    GlobalUnitInDoubt,
    PrepareFailed,
    QueueFull,
    UnitBackedOut,
)
from entrepot.flows.live.live_world import TraceFiles, is_aftermath, is_conflict, is_outage, reason_of


class Refusal(Exception):
    """As SQLAlchemy wraps what a driver says."""

    def __init__(self, sqlstate: str | None, *, invalidated: bool | None = None) -> None:
        self.orig = SimpleNamespace(sqlstate=sqlstate)
        if invalidated is not None:
            self.connection_invalidated = invalidated


def _prepare_failed(cause: Exception | None) -> PrepareFailed:
    error = PrepareFailed("postgresql://x", "refused")
    error.__cause__ = cause
    return error


def _kinds(error: BaseException | None) -> str:
    kinds = {"outage": is_outage, "conflict": is_conflict, "aftermath": is_aftermath}
    return " ".join(name for name, is_so in kinds.items() if is_so(error))


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("08006", "outage"),
        ("53300", "outage"),
        ("57P01", "outage"),
        ("58030", "outage"),
        ("25P03", "outage"),
        ("40001", "conflict"),
        ("40P01", "conflict"),
        ("55P03", "conflict"),
        ("25P02", "aftermath"),
        ("23505", ""),
        ("57014", ""),
        ("55000", ""),
        ("", ""),
    ],
)
def test_the_state_that_a_database_tells_says_whose_fault_it_was(state: str, kind: str) -> None:
    assert _kinds(DatabaseFailed("x", sqlstate=state)) == kind
    assert _kinds(_prepare_failed(Refusal(state))) == kind


@pytest.mark.parametrize(
    ("native_error", "kind"),
    [(5, "conflict"), (6, "conflict"), (5 + 256, "conflict"), (6 + 512, "conflict"), (0, ""), (19, ""), (256, "")],
)
def test_sqlite_that_is_busy_or_locked_is_a_conflict_by_the_last_byte_of_its_code(native_error: int, kind: str) -> None:
    assert _kinds(DatabaseFailed("x", sqlstate="HY000", native_error=native_error)) == kind


def test_a_connection_that_was_lost_while_a_database_prepared_is_an_outage() -> None:
    assert _kinds(_prepare_failed(Refusal("23505", invalidated=True))) == "outage"
    assert _kinds(_prepare_failed(Refusal("23505", invalidated=False))) == ""
    assert _kinds(_prepare_failed(Refusal(None))) == ""
    assert _kinds(_prepare_failed(None)) == ""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectFailed("unix:x", "gone"), "outage"),
        (ConnectionLost("unix:x", "gone"), "outage"),
        (GlobalUnitInDoubt("00", "gone"), "outage"),
        (UnitBackedOut(1, "gone"), "outage"),
        (QueueFull("Q", 1), ""),
        (ValueError("x"), ""),
        (None, ""),
    ],
)
def test_a_queue_manager_that_is_gone_is_an_outage_and_one_that_refuses_is_not(
    error: Exception | None, kind: str
) -> None:
    assert _kinds(error) == kind


def test_a_unit_that_was_backed_out_tells_the_first_cause_of_ours() -> None:
    full = QueueFull("Q", 1)
    inner, outer, bare, foreign = (UnitBackedOut(number, "x") for number in range(4))
    outer.__cause__, inner.__cause__, foreign.__cause__ = inner, full, OSError("disk")
    assert reason_of(outer) is full
    assert reason_of(bare) is bare
    assert reason_of(foreign) is foreign
    assert reason_of(full) is full
    wrapped: EntrepotError = QueueFull("R", 1)
    wrapped.__cause__ = full
    assert reason_of(wrapped) is wrapped


# --- trace files ------------------------------------------------------------------------------------------------


def test_a_trace_is_in_its_file_when_the_node_goes_on(tmp_path: Path) -> None:
    traces = TraceFiles(str(tmp_path / "user"))
    for text in ("one\n", "two\n"):
        traces(str(tmp_path / "own"), text)
        traces("", text.strip())
        assert (tmp_path / "own").read_text().endswith(text)
        assert (tmp_path / "user").read_text().endswith(f" {text}")
    assert (tmp_path / "own").read_text() == "one\ntwo\n", "a file of one's own has nothing but the text"
    assert [len(line.split(" ")) for line in (tmp_path / "user").read_text().splitlines()] == [3, 3]
    traces.close()


def test_traces_are_added_to_what_is_there_and_closed_with_the_instance(tmp_path: Path) -> None:
    own = tmp_path / "own"
    for text in ("before\n", "after\n"):
        traces = TraceFiles("")
        traces(str(own), text)
        (file,) = traces._files.values()
        traces.close()
        assert file.closed
    assert own.read_text() == "before\nafter\n"


def test_without_a_file_for_the_user_trace_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    traces = TraceFiles("")
    traces("", "nobody reads it")
    traces.close()
    assert list(tmp_path.iterdir()) == []
