# SPDX-License-Identifier: Apache-2.0
"""Shared bodies: which entries refer to which file, when a file is wanted no more, and what a file contains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.engine.recovery_log.bodies import (
    CHUNK_BYTES,
    SHARED_BYTES_MIN,
    BodyReferences,
    BodyStore,
    SharedBody,
    decode_bodies,
    encode_bodies,
)
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    BodiesRecord,
    CommitRecord,
    EndRecord,
    Entry,
    Record,
    RunHead,
    frame,
    parse,
)
from entrepot.errors import FormatUnsupported, RunDamaged
from entrepot.message import Message
from folding import for_each

from .logs import MANAGER_ID

BODY = b"b" * SHARED_BYTES_MIN


def entry(body: bytes = BODY, *, persistent: bool = True) -> Entry:
    return Entry(1, 3, 0, 100, Message(body, persistent=persistent))


def lend_one(
    shelf: BodyStore, shared: SharedBody, number: int, *, persistent: bool = True
) -> tuple[Entry, BodyReferences]:
    lent = entry(shared.body, persistent=persistent)
    return lent, shelf.lend([lent], [shared], number)


# --- lending ----------------------------------------------------------------------------------


def test_entries_refer_to_the_bodies_they_share_and_no_longer_hold_them() -> None:
    bodies = [bytes([number]) * SHARED_BYTES_MIN for number in range(3)]
    entries = [entry(body) for body in bodies]
    loan = BodyStore().lend(entries, [SharedBody(body, 5) for body in bodies], 12)
    assert loan.new == bodies
    assert [(each.body_file, each.body_index, each.sharers) for each in entries] == [(12, 0, 5), (12, 1, 5), (12, 2, 5)]
    assert all(each.message.body == b"" for each in entries)


def test_only_bodies_that_are_shared_and_long_enough_are_lent() -> None:
    entries = [entry(), entry(BODY[1:]), entry()]
    loan = BodyStore().lend(entries, [None, SharedBody(BODY[1:], 2), SharedBody(BODY, 2)], 12)
    assert loan.new == [BODY]
    assert list(loan.files) == [2]
    assert [each.body_file for each in entries] == [0, 0, 12]
    assert [len(each.message.body) for each in entries] == [SHARED_BYTES_MIN, SHARED_BYTES_MIN - 1, 0]


def test_every_entry_needs_a_word_on_whether_it_shares_its_body() -> None:
    with pytest.raises(ValueError, match="shorter"):
        BodyStore().lend([entry(), entry()], [None], 12)


def test_a_body_that_a_file_has_is_not_stored_again() -> None:
    shelf, shared = BodyStore(), SharedBody(BODY, 2)
    lend_one(shelf, shared, 12)
    second, loan = lend_one(shelf, shared, 13)
    assert loan.new == []
    assert (second.body_file, list(shelf.files)) == (12, [12])
    assert shelf.files[12].references == 2


def let_go(shelf: BodyStore, loan: BodyReferences) -> None:
    loan.own.references = 0
    assert shelf.unwanted() == [loan.own]


@for_each("lose", [BodyStore.take_back, let_go])
def test_a_body_whose_file_is_gone_is_stored_again(lose: Callable[[BodyStore, BodyReferences], None]) -> None:
    shelf, shared = BodyStore(), SharedBody(BODY, 2)
    _, loan = lend_one(shelf, shared, 12)
    lose(shelf, loan)
    assert shelf.files == {}
    again, loan = lend_one(shelf, shared, 13)
    assert loan.new == [BODY]
    assert again.body_file == 13


def test_what_is_taken_back_counts_no_more() -> None:
    shelf, shared = BodyStore(), SharedBody(BODY, 2)
    lend_one(shelf, shared, 12)
    _, second = lend_one(shelf, shared, 13)
    shelf.take_back(second)
    assert shelf.files[12].references == 1
    assert not shelf.files[12].removed


@pytest.mark.parametrize("persistent", [True, False])
def test_restart_needs_a_new_file_once_a_persistent_message_refers_to_it(persistent: bool) -> None:
    shelf, shared = BodyStore(), SharedBody(BODY, 2)
    lend_one(shelf, shared, 12, persistent=False)
    assert not shelf.files[12].persistent
    lend_one(shelf, shared, 13, persistent=persistent)
    lend_one(shelf, shared, 14, persistent=False)
    assert shelf.files[12].persistent is persistent
    assert not shelf.files[12].durable


# --- what is on the shelf ---------------------------------------------------------------------


def test_a_file_of_an_earlier_start_is_durable_and_is_known_once() -> None:
    shelf = BodyStore()
    file = shelf.file(7)
    assert (file.persistent, file.durable, file.removed, file.references) == (True, True, False, 0)
    assert shelf.file(7) is file


def test_files_without_references_leave_the_shelf_and_others_stay() -> None:
    shelf = BodyStore()
    wanted, unwanted = shelf.file(7), shelf.file(8)
    wanted.references = 1
    assert shelf.unwanted() == [unwanted]
    assert unwanted.removed and not wanted.removed
    assert shelf.files == {7: wanted}


def test_a_body_is_found_in_memory_while_a_queue_has_it() -> None:
    shelf, shared = BodyStore(), SharedBody(BODY, 2)
    lent, _ = lend_one(shelf, shared, 12)
    assert shelf.in_memory(lent) is shared
    assert shelf.share_of(lent) is shared
    del shared
    assert shelf.in_memory(lent) is None


def test_a_body_that_was_read_is_shared_with_the_next_reader() -> None:
    shelf = BodyStore()
    read = Entry(1, 3, 0, 100, Message(BODY), body_file=12, body_index=4, sharers=3)
    shared = shelf.share_of(read)
    assert (shared.body, shared.count, shared.index) == (BODY, 3, 4)
    assert shared.file is shelf.files[12]
    assert shelf.share_of(read) is shared


# --- the file ---------------------------------------------------------------------------------


def whole(*records: Record) -> memoryview:
    data = b""
    for record in records:
        data += b"".join(frame(record, len(data)))
    return memoryview(data)


def encoded(bodies: list[bytes]) -> memoryview:
    return memoryview(b"".join(encode_bodies(MANAGER_ID, 5, bodies)))


def refuse(content: memoryview, problem: str | None = None) -> RunDamaged:
    with pytest.raises(RunDamaged, match=problem) as refused:
        decode_bodies("the file", content, MANAGER_ID, 5)
    return refused.value


@for_each("count", [1, 2, 100])
def test_bodies_are_read_as_they_were_written(count: int) -> None:
    bodies = [bytes([number]) * (3_000 + number) for number in range(count)]
    assert decode_bodies("the file", encoded(bodies), MANAGER_ID, 5) == bodies


def test_a_chunk_ends_with_the_body_that_fills_it() -> None:
    content = encoded([b"x" * (CHUNK_BYTES - 1), b"y"] * 2)
    position, chunks = 0, []
    while position < len(content):
        record, position = parse(content, position)
        chunks += [len(record.bodies)] if isinstance(record, BodiesRecord) else []
    assert chunks == [2, 2]


HEAD = RunHead(FORMAT_VERSION, MANAGER_ID, 5)


@for_each(
    "head",
    [
        RunHead(FORMAT_VERSION, MANAGER_ID, 6),
        RunHead(FORMAT_VERSION, bytes(12), 5),
        CommitRecord(5),
        BodiesRecord([b"a"]),
    ],
)
def test_another_file_than_its_name_says_is_refused(head: Record) -> None:
    assert refuse(whole(head, BodiesRecord([b"a"]), EndRecord(1)), "not the file that its name says").offset == 0


def test_another_version_is_refused_as_such() -> None:
    with pytest.raises(FormatUnsupported):
        decode_bodies("the file", whole(RunHead(FORMAT_VERSION + 1, MANAGER_ID, 5), EndRecord(0)), MANAGER_ID, 5)


@for_each("records", [[EndRecord(0)], [EndRecord(2)], [CommitRecord(1), EndRecord(2)], [HEAD, EndRecord(2)]])
def test_a_record_that_does_not_belong_there_is_damage(records: list[Record]) -> None:
    begin = len(whole(HEAD, BodiesRecord([b"a"])))
    assert refuse(whole(HEAD, BodiesRecord([b"a"]), *records), "does not belong").offset == begin


def test_a_file_cut_or_changed_at_any_byte_is_damaged() -> None:
    content = encoded([b"some", b"bodies"])
    for offset in range(len(content)):
        refuse(content[:offset])
        refuse(memoryview(bytes([*content[:offset], content[offset] ^ 0x10, *content[offset + 1 :]])))
