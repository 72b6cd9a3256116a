# SPDX-License-Identifier: Apache-2.0
"""Short of memory: nothing is taken in, everything else goes on; out of it: the process ends and says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from entrepot.errors import MemoryShort
from entrepot.limits import MIB
from entrepot.server.memory_watch import EXIT_OUT_OF_MEMORY, MemoryWatch, end_when_out_of_memory, reserve_bytes
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

from .guests import House, Work, put

Inside = Callable[[Work], None]


def test_the_last_part_of_a_limit_is_kept_back() -> None:
    assert reserve_bytes(4096 * MIB) == 512 * MIB
    assert reserve_bytes(256 * MIB) == 64 * MIB
    assert reserve_bytes(64 * MIB) == 32 * MIB
    assert reserve_bytes(100_000 * MIB) == 1024 * MIB
    used = [0, 0]
    watch = MemoryWatch(1024 * MIB, 2048 * MIB, lambda: (used[0], used[1]))
    for virtual, resident, short in ((500, 100, False), (897, 100, True), (896, 100, False), (0, 1793, True)):
        used[:] = virtual * MIB, resident * MIB
        assert watch.look() is watch.is_short is short
    used[:] = 800 * MIB, 0
    assert watch.look(200 * MIB)
    assert not watch.look()


def test_puts_are_refused_while_memory_is_short_and_gets_go_on(inside: Inside) -> None:
    async def work(house: House) -> None:
        used = [0]
        house.registry.memory = watch = MemoryWatch(1024 * MIB, 1024 * MIB, lambda: (used[0], 0))
        guest = await house.admitted()
        await guest.put("Q", b"before")
        used[0] = 1000 * MIB
        with pytest.raises(MemoryShort):
            await guest.ask(Verb.PUT, 3, put("Q", bytes(MIB)))  # a large one looks by itself
        watch.look()
        with pytest.raises(MemoryShort):
            await guest.ask(Verb.PUT, 4, put("Q", b"x"))
        with pytest.raises(MemoryShort):
            await guest.ask(Verb.PUT_MANY, 5, verbs.PutMany(1, [("Q", None, None, put("Q", b"x").message)]))
        assert (await guest.ask(Verb.GET, 6, verbs.Get("Q"))).message.body == b"before"
        used[0] = 0
        watch.look()
        await guest.put("Q", b"after")

    inside(work)


def test_an_allocation_that_fails_ends_the_process_wherever_it_happens() -> None:
    codes: list[int] = []
    usual = threading.excepthook

    def fails() -> None:
        raise MemoryError

    async def lived() -> None:
        loop = asyncio.get_running_loop()
        threading.excepthook = lambda _: None
        end_when_out_of_memory(loop, codes.append)
        loop.call_soon(fails)
        await asyncio.sleep(0)
        assert codes == [EXIT_OUT_OF_MEMORY]
        loop.call_exception_handler({"message": "", "exception": RuntimeError("can't start new thread")})
        thread = threading.Thread(target=fails)
        thread.start()
        await asyncio.to_thread(thread.join)

    try:
        asyncio.run(lived())
    finally:
        threading.excepthook = usual
    assert codes == [EXIT_OUT_OF_MEMORY] * 3


def test_a_frame_for_which_there_is_no_memory_costs_its_connection_only(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()

        def no_memory(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(guest.link, "decode", no_memory)
        guest.say(Verb.PUT, 3, put("Q", b"x"))
        assert "no memory" in str(await guest.farewell())
        await other.put("Q", b"x")

    inside(work)
