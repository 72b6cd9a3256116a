# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.engine.recovery_log.group import GROUP_BYTES, Group
from entrepot.engine.recovery_log.record import CommitRecord, RecordType, frame, frame_head
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_path
from entrepot.errors import LogDamaged, LogIncomplete
from entrepot.testing import SimulatedDisk
from folding import for_each

from .logs import (
    KEY,
    PAYLOAD_BYTES,
    SMALL,
    commits,
    framed_bytes,
    new_disk,
    open_log,
    overwrite,
    own_head_page,
    put_record,
    read,
    reader,
    stream,
    write,
)

COMMIT_BYTES = framed_bytes(CommitRecord(1))


def opening(body_bytes: int) -> bytes:
    """The frame of a group at position 0."""
    check, seed = KEY.secrets(0, 1, 1, 0)
    return KEY.frame(Group(body_bytes, 0, 1, 1, 1.7e9, 0, check), 0, seed)


def group(
    position: int, *units: int, incarnation: int = 1, forced_position: int = 0, serial: int = 1, after: bytes = b""
) -> bytes:
    """A group of commits as it stands in the stream; `after` is the group before it, if that is of the same start."""
    previous = int.from_bytes(after[GROUP_BYTES - 8 : GROUP_BYTES], "little")
    check, seed = KEY.secrets(position, incarnation, serial, previous)
    body = b""
    for unit in units:
        body += b"".join(frame(CommitRecord(unit), position + GROUP_BYTES + len(body), seed))
    opened = Group(len(body), forced_position, incarnation, serial, 1.7e9, previous, check)
    return KEY.frame(opened, position, seed) + body


def log_of(*parts: tuple[int, bytes]) -> SimulatedDisk:
    """A log of one segment with these bytes at these positions, written in this order."""
    disk = new_disk()
    content = bytearray(own_head_page(0).ljust(SMALL.segment_bytes, b"\0"))
    for position, data in parts:
        content[HEAD_PAGE_BYTES + position : HEAD_PAGE_BYTES + position + len(data)] = data
    disk.put(segment_path(0), bytes(content))
    return disk


ONE = group(0, 1, 2)


# --- sound logs -------------------------------------------------------------------------------


def test_an_empty_folder_is_an_empty_log() -> None:
    found = reader(new_disk())
    assert list(found.records(0)) == []
    assert (found.first_position, found.torn, found.end_position) == (None, "", 0)
    assert (found.incarnation, found.time, found.forced_position) == (0, 0.0, 0)


def test_a_reader_that_has_read_nothing_is_at_the_beginning() -> None:
    found = reader(log_of((0, ONE)))
    assert (found.end_position, found.incarnation, found.time, found.forced_position, found.torn) == (0, 0, 0.0, 0, "")


def test_an_empty_segment_is_an_empty_log() -> None:
    found = reader(log_of())
    assert list(found.records(0)) == []
    assert (found.first_position, found.torn) == (0, "")


def test_the_reader_tells_end_incarnation_time_and_forced_position() -> None:
    second = group(len(ONE), 3, incarnation=4, forced_position=len(ONE))
    found = reader(log_of((0, ONE), (len(ONE), second)))
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1, 2, 3)
    assert found.end_position == len(ONE) + len(second)
    assert (found.incarnation, found.time, found.forced_position, found.torn) == (4, 1.7e9, len(ONE), "")


def test_reading_may_begin_at_any_group() -> None:
    disk = new_disk()
    log = open_log(disk)
    starts = [write(log, CommitRecord(unit), put_record(7_000)) for unit in range(40)]
    assert log.forced_position > 4 * PAYLOAD_BYTES
    for unit, start in enumerate(starts):
        found = [record for record in read(disk, start) if isinstance(record, CommitRecord)]
        assert found == commits(*range(unit, 40))


def test_a_segment_that_is_gone_makes_the_log_incomplete() -> None:
    disk = new_disk()
    log = open_log(disk)
    while log.forced_position < 3 * PAYLOAD_BYTES:
        write(log, put_record(10_000))
    disk.remove(segment_path(0))
    with pytest.raises(LogIncomplete):
        list(reader(disk).records(0))
    assert reader(disk).first_position == PAYLOAD_BYTES
    with pytest.raises(LogIncomplete):
        list(reader(disk).records(5 * PAYLOAD_BYTES))


def test_at_the_very_end_of_a_segment_the_next_one_need_not_be_made_yet() -> None:
    disk = new_disk()
    log = open_log(disk, position=PAYLOAD_BYTES - GROUP_BYTES - COMMIT_BYTES)
    write(log, CommitRecord(1))
    found = reader(disk)
    assert list(found.records(PAYLOAD_BYTES)) == []
    assert (found.end_position, found.torn) == (PAYLOAD_BYTES, "")
    with pytest.raises(LogIncomplete):
        list(reader(disk).records(2 * PAYLOAD_BYTES))


def test_nothing_is_read_from_within_a_group() -> None:
    disk = log_of((0, ONE))
    for start in range(1, len(ONE)):
        assert list(reader(disk).records(start)) == []


def test_a_position_is_described_as_file_and_offset() -> None:
    path, offset = reader(new_disk()).describe(3 * PAYLOAD_BYTES + 17)
    assert path.endswith("log/segment-00000003.log")
    assert offset == HEAD_PAGE_BYTES + 17


# --- torn groups ------------------------------------------------------------------------------


@for_each("cut", range(1, len(ONE)))
def test_a_group_torn_at_any_byte_leaves_its_whole_records(cut: int) -> None:
    disk = log_of((0, ONE[:cut]))
    # A byte that was to be zero is there although it was not written.
    while stream(disk, cut, cut + 1) == ONE[cut : cut + 1]:
        cut += 1
    found = reader(disk)
    records = [item.record for item in found.records(0)]
    whole = 0 if cut < GROUP_BYTES else 1 + (cut - GROUP_BYTES) // COMMIT_BYTES
    assert len(records) == whole
    assert found.end_position == (GROUP_BYTES + (whole - 1) * COMMIT_BYTES if whole else 0)


def test_a_torn_groups_whole_records_are_read_and_what_is_wrong_is_told() -> None:
    found = reader(log_of((0, ONE[:-1] + b"?")))
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1)
    assert "CRC" in found.torn


def test_a_record_outside_of_any_group_is_not_read() -> None:
    """Remains of a longer group that a shorter one was written over."""
    stray = b"".join(frame(CommitRecord(7), len(ONE), KEY.secrets(0, 1, 1, 0).seed))
    found = reader(log_of((0, ONE), (len(ONE), stray)))
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1, 2)
    assert found.torn == "", "no group begins there, so none was torn"


def test_a_later_start_goes_on_inside_of_a_torn_group() -> None:
    """The first start's group lost its last record; the second start wrote from there."""
    kept = GROUP_BYTES + COMMIT_BYTES
    again = group(kept, 5, 6, incarnation=2, forced_position=kept)
    disk = log_of((0, group(0, 1, 2, 3, 4)), (kept, again))
    assert read(disk) == commits(1, 5, 6)


def test_the_remains_of_a_torn_group_are_not_read_behind_what_a_later_start_wrote_over_it() -> None:
    """The new group ends exactly where a record of the old one begins, which is whole and in its place."""
    kept = GROUP_BYTES + COMMIT_BYTES
    again = group(kept, 5, incarnation=2, forced_position=kept)
    old = group(0, *range(1, 12))
    disk = log_of((0, old), (kept, again))
    assert read(disk) == commits(1, 5)


def test_a_group_of_an_earlier_start_behind_one_of_a_later_is_not_accepted() -> None:
    second = group(len(ONE), 3, incarnation=2)
    stale = group(len(ONE) + len(second), 9, incarnation=1)
    found = reader(log_of((0, ONE), (len(ONE), second), (len(ONE) + len(second), stale)))
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1, 2, 3)
    assert "earlier start" in found.torn


def test_a_stale_group_proves_nothing_about_what_a_later_start_wrote() -> None:
    """It says that its own start had forced this place, but a later start has written over it since."""
    stale_at = len(ONE) + 500
    stale = group(stale_at, 9, incarnation=1, forced_position=stale_at)
    torn = group(len(ONE), 3, incarnation=2, forced_position=len(ONE))[:-1]
    first = group(0, 1, 2, incarnation=2)
    found = reader(log_of((0, first), (stale_at, stale), (len(ONE), torn)))
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1, 2)
    assert found.torn


def test_a_group_of_the_same_start_inside_of_a_group_is_none() -> None:
    """Even one that would follow it behind its end."""
    outer = opening(len(group(GROUP_BYTES, 8)))
    inner = group(GROUP_BYTES, 8, serial=2, after=outer)
    found = reader(log_of((0, outer), (GROUP_BYTES, inner)))
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == []


def test_a_group_of_the_same_start_that_does_not_follow_the_one_before_is_not_read() -> None:
    """Of two queue managers that were restored from one backup, neither continues the other's log."""
    follows, does_not = (group(len(ONE), 3, serial=2, after=after) for after in (ONE, b""))
    assert read(log_of((0, ONE), (len(ONE), follows))) == commits(1, 2, 3)
    assert read(log_of((0, ONE), (len(ONE), does_not))) == commits(1, 2)


def test_a_group_from_an_earlier_lap_is_not_taken_for_a_present_one() -> None:
    lap_before = group(0, 8, 9)
    found = reader(log_of((0, ONE), (len(ONE), lap_before)))
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1, 2)
    assert found.torn == "", "it is no torn group, only what the file held before"


# --- damage -----------------------------------------------------------------------------------


def damaged_log(*, forced_position: int, gap: int = 0) -> SimulatedDisk:
    """A bad record in the first group, and a later group that says how far the log was forced before it."""
    later = len(ONE) + gap
    return log_of((0, ONE[:-1] + b"?"), (later, group(later, 3, forced_position=forced_position)))


def test_a_bad_record_that_had_been_forced_is_damage_and_named() -> None:
    with pytest.raises(LogDamaged, match="CRC") as damage:
        read(damaged_log(forced_position=len(ONE)))
    assert damage.value.offset == HEAD_PAGE_BYTES + GROUP_BYTES + COMMIT_BYTES
    assert damage.value.segment.endswith(segment_path(0))


def test_a_bad_record_that_had_not_been_forced_is_torn() -> None:
    """Two groups were under way when the power failed; the later one reached the medium, the earlier did not."""
    assert read(damaged_log(forced_position=0)) == commits(1)


def test_a_bad_record_right_at_the_forced_position_is_torn() -> None:
    bad = GROUP_BYTES + COMMIT_BYTES
    assert read(damaged_log(forced_position=bad)) == commits(1)
    with pytest.raises(LogDamaged):
        read(damaged_log(forced_position=bad + 1))


def test_the_proof_of_damage_may_lie_anywhere_behind_it() -> None:
    with pytest.raises(LogDamaged):
        read(damaged_log(forced_position=len(ONE), gap=1_013))


def test_the_proof_of_damage_may_lie_in_a_later_segment() -> None:
    disk = new_disk()
    log = open_log(disk)
    start = write(log, put_record(1_000))
    end = log.forced_position
    write(log, put_record(2 * PAYLOAD_BYTES))
    write(log, CommitRecord(1))
    last = stream(disk, end - 4, end)
    overwrite(disk, end - 4, bytes(byte ^ 0xFF for byte in last))
    with pytest.raises(LogDamaged) as damage:
        read(disk)
    assert damage.value.offset == HEAD_PAGE_BYTES + start + GROUP_BYTES


def test_the_proof_of_damage_may_begin_in_one_segment_and_end_in_the_next() -> None:
    overhead = framed_bytes(put_record(60_000)) - 60_000 + GROUP_BYTES
    for left in range(1, 12):
        disk = new_disk()
        log = open_log(disk)
        write(log, put_record(PAYLOAD_BYTES - overhead - left))
        assert log.forced_position == PAYLOAD_BYTES - left
        write(log, CommitRecord(1))
        overwrite(disk, 1_000, b"??")
        with pytest.raises(LogDamaged):
            read(disk)


def test_zeros_where_the_log_had_been_forced_are_damage() -> None:
    later = len(ONE) + COMMIT_BYTES
    with pytest.raises(LogDamaged, match="no record begins here"):
        read(log_of((0, ONE), (later, group(later, 3, forced_position=later))))


def test_a_whole_record_that_cannot_be_understood_is_damage_never_torn() -> None:
    payload = b"\xc1 is never MessagePack"
    strange = frame_head(RecordType.COMMIT, payload, GROUP_BYTES, KEY.secrets(0, 1, 1, 0).seed) + payload
    disk = log_of((0, opening(len(strange))), (GROUP_BYTES, strange))
    with pytest.raises(LogDamaged, match="a whole COMMIT record cannot be understood"):
        read(disk)


def test_a_damaged_head_page_refuses_the_log() -> None:
    disk = log_of((0, ONE))
    disk.flip_bit(segment_path(0), 100, 3)
    with pytest.raises(LogDamaged, match="head page"):
        read(disk)


def test_a_segment_cut_short_is_torn_or_damaged_like_any_other_bytes() -> None:
    disk = new_disk()
    log = open_log(disk)
    write(log, CommitRecord(1))
    end = log.forced_position
    write(log, put_record(PAYLOAD_BYTES))
    whole = disk.contents(segment_path(0))
    disk.put(segment_path(0), whole[: HEAD_PAGE_BYTES + end + 100])
    found = reader(disk)
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1)
    assert "ends within a record" in found.torn
    write(log, CommitRecord(2))
    disk.put(segment_path(0), whole[: HEAD_PAGE_BYTES + end + 100])
    with pytest.raises(LogDamaged):
        read(disk)


def test_what_a_start_has_cut_off_does_not_come_back_when_its_own_writes_are_torn() -> None:
    """The checkpoint of start 2 says that it cut the log within a group of start 1; the group is whole again."""
    first = group(0, 1)
    second = group(len(first), 2, 3, incarnation=1, forced_position=len(first), after=first)
    disk = log_of((0, first), (len(first), second))
    everything = list(reader(disk).records(0))
    cut = everything[-1].position
    kept = [logged.position for logged in reader(disk).records(0, boundary=cut, incarnation=2)]
    assert kept == [logged.position for logged in everything[:-1]]


def test_behind_the_boundary_a_group_of_the_start_that_drew_it_counts() -> None:
    first = group(0, 1)
    second = group(len(first), 2, incarnation=2, forced_position=len(first))
    disk = log_of((0, first), (len(first), second))
    assert len(list(reader(disk).records(0, boundary=len(first), incarnation=2))) == len(list(reader(disk).records(0)))
    assert len(list(reader(disk).records(0, boundary=len(first), incarnation=3))) == 2


def test_a_torn_mixture_of_two_groups_at_one_place_passes_for_neither() -> None:
    """Of the second write only the group's own record reached the disk; behind it stands what the first one left."""
    first, second = group(0, 1, 2), group(0, 3, 4, serial=2)
    disk = log_of((0, second[:GROUP_BYTES] + first[GROUP_BYTES:]))
    assert read(disk) == []
