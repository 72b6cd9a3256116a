# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import mmap
import struct
from pathlib import Path

import pytest

from entrepot.errors import FrameTooLong, FrameUnreadable
from entrepot.limits import BODY_BYTES_MAX, FRAME_OVERHEAD_BYTES_MAX, MIB
from entrepot.server.wire.frame import (
    HANDSHAKE_FRAME_BYTES_MAX,
    HEAD,
    HEAD_BYTES,
    FrameReader,
    frame_bytes_max,
    read_buffer,
)
from folding import for_each

Found = tuple[int, int, bytes]


def frame(verb: int, number: int, payload: bytes) -> bytes:
    return HEAD.pack(len(payload) + HEAD_BYTES - 4, verb, number) + payload


def reader(shared_bytes: int = 64 * 1024, frame_bytes_max: int = HANDSHAKE_FRAME_BYTES_MAX) -> FrameReader:
    return FrameReader(memoryview(bytearray(shared_bytes)), frame_bytes_max)


def feed(reader: FrameReader, data: bytes) -> list[Found]:
    """What a transport does: bytes into the buffer it is lent, as often as needed."""
    found = []
    while data:
        buffer = reader.buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        one = reader.only_frame(count)
        frames = reader.frames(count) if one is None else [one]
        found += [(verb, number, bytes(payload)) for verb, number, payload in frames]
    return found


FRAMES: list[Found] = [
    (1, 7, b"hello"),
    (2, 0, b""),
    (255, 2**32 - 1, b"x" * 300),
    (3, 1, b"\x00" * 5),
]
STREAM = b"".join(frame(*each) for each in FRAMES)


def test_a_stream_cut_anywhere_gives_the_same_frames() -> None:
    for cut in range(len(STREAM) + 1):
        found = reader()
        assert feed(found, STREAM[:cut]) + feed(found, STREAM[cut:]) == FRAMES, cut
        assert (found._filled or len(found._rest)) == 0


def test_a_stream_cut_twice_gives_the_same_frames() -> None:
    short = frame(1, 1, b"ab") + frame(2, 2, b"") + frame(3, 3, b"c")
    for first in range(len(short)):
        for second in range(first, len(short)):
            found = reader()
            parts = [*feed(found, short[:first]), *feed(found, short[first:second]), *feed(found, short[second:])]
            assert parts == [(1, 1, b"ab"), (2, 2, b""), (3, 3, b"c")], (first, second)


@for_each("at_a_time", [1, 2, 3, 5, 11, 12, 13, 100])
def test_a_stream_that_drips_gives_the_same_frames(at_a_time: int) -> None:
    found = reader()
    dripped = [each for start in range(0, len(STREAM), at_a_time) for each in feed(found, STREAM[start:][:at_a_time])]
    assert dripped == FRAMES


@pytest.mark.parametrize("shared_bytes", [12, 16, 64, 311])
def test_frames_longer_than_the_shared_buffer_come_whole(shared_bytes: int) -> None:
    assert feed(reader(shared_bytes), STREAM) == FRAMES


def test_a_reader_keeps_only_what_is_not_whole_so_others_may_use_the_shared_buffer() -> None:
    shared = memoryview(bytearray(1024))
    first, second = FrameReader(shared), FrameReader(shared)
    half = frame(1, 1, b"first" * 20)
    assert feed(first, half[:50]) == []
    assert feed(second, frame(2, 2, b"second" * 30)) == [(2, 2, b"second" * 30)]
    assert (first._filled or len(first._rest)) == 50
    assert feed(first, half[50:] + frame(3, 3, b"")) == [(1, 1, b"first" * 20), (3, 3, b"")]


def test_all_connections_of_a_thread_share_one_buffer() -> None:
    assert read_buffer() is read_buffer()


@pytest.mark.parametrize("length", [0, 1, 7])
def test_a_length_that_cannot_hold_the_head_is_refused(length: int) -> None:
    data = struct.pack("<I", length) + bytes(20)
    with pytest.raises(FrameUnreadable, match=f"a frame of {length} bytes"):
        feed(reader(), data)


@pytest.mark.parametrize("length", [HANDSHAKE_FRAME_BYTES_MAX + 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_length_beyond_the_limit_is_refused_before_anything_is_kept(length: int) -> None:
    found = reader()
    with pytest.raises(FrameTooLong) as refused:
        feed(found, struct.pack("<I", length))
    assert (refused.value.frame_bytes, refused.value.frame_bytes_max) == (length, HANDSHAKE_FRAME_BYTES_MAX)
    assert (found._filled or len(found._rest)) == 0
    with pytest.raises(FrameTooLong):
        feed(reader(), struct.pack("<I", length) + bytes(60))


def test_the_longest_frame_is_accepted_and_one_byte_more_is_not() -> None:
    payload = bytes(HANDSHAKE_FRAME_BYTES_MAX - HEAD_BYTES + 4)
    assert feed(reader(), frame(1, 1, payload)) == [(1, 1, payload)]
    with pytest.raises(FrameTooLong):
        feed(reader(), frame(1, 1, payload + b"x"))


def test_a_long_length_is_refused_however_it_was_cut() -> None:
    data = struct.pack("<I", 2**31) + bytes(12)
    for cut in range(1, len(data)):
        found = reader()
        with pytest.raises(FrameTooLong):
            feed(found, data[:cut])
            feed(found, data[cut:])


def test_a_frame_of_the_right_length_by_chance_but_too_long_is_refused() -> None:
    # The short way for a single frame must not be a way around the limit.
    data = frame(1, 1, bytes(50))
    with pytest.raises(FrameTooLong):
        feed(reader(frame_bytes_max=40), data)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_who_only_announces_a_long_frame_gets_no_memory() -> None:
    announced = struct.pack("<IBxxxI", BODY_BYTES_MAX, 2, 1) + b"begun"
    before = resident_bytes()
    found = [reader(frame_bytes_max=frame_bytes_max(BODY_BYTES_MAX)) for _ in range(50)]
    for each in found:
        assert feed(each, announced) == []
    # Five gigabytes were announced.
    assert resident_bytes() - before < 16 * MIB


def test_a_long_frame_comes_whole_and_its_memory_goes_with_it() -> None:
    payload = bytes(range(256)) * 4 * 1024
    found = reader(frame_bytes_max=frame_bytes_max(BODY_BYTES_MAX))
    assert feed(found, frame(2, 1, payload) + frame(3, 2, b"next")) == [(2, 1, payload), (3, 2, b"next")]
    assert len(found.buffer()) == 64 * 1024


def test_a_widened_reader_takes_what_has_begun_before() -> None:
    found = reader(64, frame_bytes_max=40)
    begun = frame(1, 1, bytes(20))
    assert feed(found, begun[:9]) == []
    found.widen(memoryview(bytearray(4096)), 4000)
    assert feed(found, begun[9:] + frame(2, 2, bytes(3000))) == [(1, 1, bytes(20)), (2, 2, bytes(3000))]


def test_a_frame_may_have_a_message_of_the_longest_body_and_what_belongs_to_it() -> None:
    assert frame_bytes_max(1000) == 1000 + FRAME_OVERHEAD_BYTES_MAX
