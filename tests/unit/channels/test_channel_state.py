# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from entrepot.channels.channel_state import (
    ChannelState,
    InDoubtBatch,
    Role,
    SequenceMark,
    all_states,
    channels_in_doubt,
    find_doubt,
    judge,
    new_batch_id,
    read_state,
    replace_state,
    sequence_after,
    state_key,
    transaction_id,
)
from entrepot.engine.definitions import SYNCHRONIZATION_QUEUE, LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import SequenceMismatch
from entrepot.message import Message
from folding import for_each
from hosted import Host

NONE = SequenceMark(0, b"")
FIRST = SequenceMark(50, b"first")
SECOND = SequenceMark(100, b"second")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    create(tmp_path / "QM1", log=LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4))
    host = Host(tmp_path / "QM1")
    host.define(LocalQueue(name="X"), replace=False)
    yield host
    host.close()


@for_each(
    ("before", "in_doubt", "theirs", "verdict"),
    [
        (NONE, None, NONE, "agreed"),
        (FIRST, None, FIRST, "agreed"),
        (FIRST, SECOND, FIRST, "backed out"),
        (FIRST, SECOND, SECOND, "committed"),
        (NONE, FIRST, NONE, "backed out"),
        (NONE, FIRST, FIRST, "committed"),
        (FIRST, None, SECOND, "mismatch"),
        (FIRST, None, NONE, "mismatch"),
        (NONE, None, FIRST, "mismatch"),
        (FIRST, SECOND, NONE, "mismatch"),
        (FIRST, SECOND, SequenceMark(150, b"third"), "mismatch"),
        # The same number by another way: one end was restored from a backup.
        (FIRST, None, SequenceMark(50, b"other"), "mismatch"),
        (FIRST, SECOND, SequenceMark(100, b"other"), "mismatch"),
        (FIRST, SECOND, SequenceMark(50, b"other"), "mismatch"),
        (FIRST, None, SequenceMark(49, b"first"), "mismatch"),
    ],
)
def test_only_the_same_number_of_the_same_batch_counts(
    before: SequenceMark, in_doubt: SequenceMark | None, theirs: SequenceMark, verdict: str
) -> None:
    assert judge(before, in_doubt, theirs) == verdict


def test_sequence_begins_again_behind_its_wrap() -> None:
    assert [sequence_after(n, 100) for n in (0, 1, 99, 100, 101)] == [1, 2, 100, 1, 1]


def test_batch_ids_and_keys_differ() -> None:
    assert len({new_batch_id() for _ in range(1000)}) == 1000
    keys = {state_key(role, channel, partner) for role in Role for channel in ("A", "B") for partner in ("", "A")}
    assert len(keys) == 12


def _replace(host: Host, before: ChannelState, after: ChannelState | None) -> None:
    unit = host.begin()
    with host.lock:
        replace_state(host.manager, unit, before, after)
    host.commit(unit)


def test_state_is_what_was_last_committed(host: Host) -> None:
    with host.lock:
        nothing = read_state(host.manager, Role.RECEIVER, "C", "QM2")
    assert nothing.mark == NONE
    first = nothing.followed_by("QM2", FIRST, 1.0)
    second = first.followed_by("QM2", SECOND, 2.0)
    _replace(host, nothing, first)
    _replace(host, first, second)
    with host.lock:
        assert read_state(host.manager, Role.RECEIVER, "C", "QM2").mark == SECOND
        assert read_state(host.manager, Role.RECEIVER, "C", "QM3").mark == NONE
        assert read_state(host.manager, Role.SENDER, "C").mark == NONE
        assert [state.mark for state in all_states(host.manager)] == [SECOND]
    _replace(host, second, None)
    assert host.queue_status(SYNCHRONIZATION_QUEUE)["CURDEPTH"] == 0


def test_state_is_not_replaced_when_the_queue_says_otherwise(host: Host) -> None:
    nothing = ChannelState(Role.RECEIVER, "C", "QM2")
    first = nothing.followed_by("QM2", FIRST, 1.0)
    second = first.followed_by("QM2", SECOND, 2.0)
    _replace(host, nothing, first)
    unit = host.begin()
    with host.lock, pytest.raises(SequenceMismatch, match=r"50.*SYSTEM.CHANNEL.SYNCQ"):
        replace_state(host.manager, unit, second, first)
    host.back_out(unit)
    with host.lock:
        assert read_state(host.manager, Role.RECEIVER, "C", "QM2").mark == FIRST


def _keep(host: Host, message: Message) -> None:
    """Put there what only the queue manager can."""
    host.durably(lambda: host.manager.put(SYNCHRONIZATION_QUEUE, message, persistent=True, internal=True)[1])


def test_what_is_no_state_is_not_taken_for_one(host: Host) -> None:
    key = state_key(Role.SENDER, "C", "")
    _keep(host, Message(b"{}", correlation_id=key, format="CHANNEL"))
    with host.lock, pytest.raises(SequenceMismatch, match="no state of a channel"):
        read_state(host.manager, Role.SENDER, "C")


def _in_doubt(host: Host, channel: str, batch: bytes) -> InDoubtBatch:
    before = ChannelState(Role.SENDER, channel)
    after = before.followed_by("QM2", SequenceMark(1, batch), 1.0)
    host.put("X", Message(b"1"), persistent=True)
    unit = host.begin()
    host.get("X", unit=unit)
    with host.lock:
        replace_state(host.manager, unit, before, after)
    host.prepare(unit, transaction_id(channel, batch))
    return InDoubtBatch(transaction_id(channel, batch), before, after)


def test_doubt_is_found_by_its_channel_and_survives_a_restart(host: Host) -> None:
    batch = new_batch_id()
    doubt = _in_doubt(host, "C", batch)
    _in_doubt(host, "C.D", new_batch_id())
    unit = host.begin()
    host.put("X", Message(b"2"), unit=unit, persistent=True)
    host.prepare(unit, b"channelE" + new_batch_id())  # an application's, with a strange name
    with host.lock:
        assert find_doubt(host.manager, "C") == doubt
        assert find_doubt(host.manager, "E") is None
        assert channels_in_doubt(host.manager) == {"C", "C.D"}
    path = host.path
    host.close()
    again = Host(path)
    with again.lock:
        assert find_doubt(again.manager, "C") == doubt
        assert channels_in_doubt(again.manager) == {"C", "C.D"}
    again.resolve(doubt.transaction_id, commit=True)
    with again.lock:
        assert find_doubt(again.manager, "C") is None
        assert read_state(again.manager, Role.SENDER, "C") == doubt.after
    again.close()


def test_a_sender_may_prepare_its_next_batch_before_the_log_has_resolved_the_last(host: Host) -> None:
    first = _in_doubt(host, "C", new_batch_id())
    host.put("X", Message(b"2"), persistent=True)
    unit = host.begin()
    host.get("X", unit=unit)
    batch = new_batch_id()
    after = first.after.followed_by("QM2", SequenceMark(2, batch), 2.0)
    with host.lock:
        resolved = host.manager.in_doubt.resolve(first.transaction_id, commit=True)
        replace_state(host.manager, unit, first.after, after)
        prepared = host.manager.in_doubt.prepare(unit, transaction_id("C", batch))
        assert not resolved.done
    host._force_all()
    assert prepared.done
    path = host.path
    with host.lock:
        assert find_doubt(host.manager, "C") == InDoubtBatch(transaction_id("C", batch), first.after, after)
    host.close()
    again = Host(path)
    with again.lock:
        assert find_doubt(again.manager, "C") == InDoubtBatch(transaction_id("C", batch), first.after, after)
    again.resolve(transaction_id("C", batch), commit=False)
    with again.lock:
        assert read_state(again.manager, Role.SENDER, "C") == first.after
    third = again.begin()
    with again.lock:
        replace_state(
            again.manager, third, first.after, first.after.followed_by("QM2", SequenceMark(2, b"3" * 16), 3.0)
        )
    again.commit(third)
    assert again.queue_status(SYNCHRONIZATION_QUEUE)["CURDEPTH"] == 1
    again.close()


def test_of_several_states_the_newest_counts_and_the_next_takes_all_away(host: Host) -> None:
    nothing = ChannelState(Role.SENDER, "C")
    first = nothing.followed_by("QM2", FIRST, 1.0)
    second = first.followed_by("QM2", SECOND, 2.0)
    for state in (second, first):
        stored = Message(msgspec.json.encode(state), correlation_id=state.key, format="CHANNEL")
        _keep(host, stored)
    with host.lock:
        assert read_state(host.manager, Role.SENDER, "C") == second
    assert host.queue_status(SYNCHRONIZATION_QUEUE)["UNCOM"] == 0
    _replace(host, second, second.reset_to(7, 3.0))
    with host.lock:
        assert str(read_state(host.manager, Role.SENDER, "C")) == "sequence 6 after RESET"
    assert host.queue_status(SYNCHRONIZATION_QUEUE)["CURDEPTH"] == 1
