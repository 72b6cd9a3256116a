# SPDX-License-Identifier: Apache-2.0
"""A small campaign of frames.py, without AddressSanitizer, and what the compiled parser has got wrong once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from entrepot.compiled import compiled
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.frame import HEAD, HEAD_BYTES
from entrepot.server.wire.verbs import Verb
from unit.server.guests import House, put

from .finding import Finding
from .frames import ENDS_IN_COUNT, Changing, FrameHouse, fuzz, require_readable, samples
from .running_loop import stop_all

FRAMES = 20_000

pytestmark = pytest.mark.skipif(compiled("express") is None, reason="there is no compiled parser")


@pytest.fixture(scope="module", autouse=True)
def _no_queue_manager_stays() -> Iterator[None]:
    yield
    stop_all()


def test_changed_frames_are_taken_whole_or_left() -> None:
    counts = fuzz(7, FRAMES)
    assert sum(count.looked_at for count in counts.values()) >= FRAMES
    for reader, count in counts.items():
        assert count.taken > count.looked_at / 20 > 0, f"what is taken is what is tested: {reader}"


def test_the_same_seed_makes_the_same_frames() -> None:
    first, second, other = (Changing(seed, samples()) for seed in (1, 1, 2))
    frames = [first.together() for _ in range(50)]
    assert frames == [second.together() for _ in range(50)]
    assert frames != [other.together() for _ in range(50)]


def test_what_msgspec_cannot_read_is_a_finding_when_it_is_taken() -> None:
    frame = encode(Verb.PUT, 0, put("Q"))[HEAD_BYTES:]
    require_readable(Verb.PUT, frame)
    with pytest.raises(Finding):
        require_readable(Verb.PUT, frame + b"\0")


def test_bytes_behind_the_puts_of_a_frame_close_the_connection() -> None:
    content = (
        encode(Verb.PUT_MANY, 0, verbs.PutMany(0, [("STANDING", False, None, Message(b"body"))]))[HEAD_BYTES:] + b"\0"
    )

    async def visit(house: House) -> None:
        guest = await house.admitted()
        await guest.put("STANDING")
        guest.say_bytes(HEAD.pack(HEAD_BYTES - 4 + len(content), Verb.PUT_MANY, 0) + content)
        error = await guest.farewell()
        assert error.code == "C24"

    FrameHouse().visit(visit)


def test_a_frame_that_ends_within_its_count_closes_the_connection() -> None:
    # Without a sanitizer nothing shows that the byte behind it was read: `make torture` gives it to one that does.
    async def visit(house: House) -> None:
        guest = await house.admitted()
        guest.say_bytes(ENDS_IN_COUNT)
        error = await guest.farewell()
        assert error.code == "C24"

    FrameHouse().visit(visit)
