# SPDX-License-Identifier: Apache-2.0
"""Tens of thousands of frames that nobody should send, and one that somebody should.

ENTREPOT_FUZZ_SEED=12345 pytest tests/hostile/test_fuzz_native.py    the same frames again
ENTREPOT_FUZZ_FRAMES=1000000                                         more of them
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from entrepot.client.address import open_socket, parse
from entrepot.client.blocking import connect
from entrepot.errors import UnitNotInDoubt
from entrepot.limits import MIB
from entrepot.server import password_checks
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import Verb
from entrepot.testing.servers import ServerThread
from unit.server.guests import PATIENCE_S, Guest, House, Work, greeting, live, until

from .mangling import Mangler

SEED = int(os.environ.get("ENTREPOT_FUZZ_SEED", "20261116"))
FRAMES = int(os.environ.get("ENTREPOT_FUZZ_FRAMES", "20000"))
GROWTH_BYTES_MAX = 64 * MIB
HANG_S = 3.0


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@contextlib.contextmanager
def tell_the_seed(seed: int, said: list[bytes]) -> Iterator[None]:
    """Add to a failure what is needed to see it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"ENTREPOT_FUZZ_SEED={seed}; the last frames were")
        for frame in said[-5:]:
            error.add_note(f"  {frame[:200].hex()}")
        raise


class Fuzzed:
    """A house that is visited by guests without manners."""

    def __init__(self, house: House, mangler: Mangler) -> None:
        self.house = house
        self.mangler = mangler
        self.frames = 0
        self.connections = 0
        self.slowest_s = 0.0
        self.said: list[bytes] = []

    async def visit(self, *, admitted: bool) -> None:
        """One connection, until it is closed or has said enough."""
        house, mangler = self.house, self.mangler
        guest = await house.admitted() if admitted else house.guest(uid=mangler.random.choice((None, -1)))
        self.connections += 1
        self.said.clear()
        for _ in range(mangler.random.randint(1, 40)):
            self.said.append(frame := mangler.frame())
            self.frames += 1
            self._say(guest, frame)
            if guest.wire.closing:
                break
            if mangler.random.random() < 0.1:
                await asyncio.sleep(0)
        guest.wire.written.clear()
        if not guest.wire.closing and mangler.random.random() < 0.5:
            guest.link.close()
        else:
            guest.wire.lose()
        await self._gone(guest)

    def _say(self, guest: Guest, frame: bytes) -> None:
        begun = time.process_time()
        if self.mangler.random.random() < 0.1:
            guest.say_bytes(frame, at_a_time=self.mangler.random.choice((1, 3, 13)))
        else:
            guest.say_bytes(frame)
        self.slowest_s = max(self.slowest_s, time.process_time() - begun)

    async def _gone(self, guest: Guest) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not guest.wire.lost:
                await asyncio.sleep(0)
        self.house.guests.clear()
        assert self.house.escaped == []
        assert guest.link not in self.house.registry.links
        assert guest.link.session is None or guest.link.session.closed

    def _resolved(self) -> bool:
        for transaction_id in self.house.host.in_doubt():
            with contextlib.suppress(UnitNotInDoubt):  # it is being decided just now
                self.house.host.resolve(transaction_id, commit=False)
        return not self.house.host.in_doubt()

    def _delayed(self) -> int:
        """How many messages were returned and wait for their time."""
        manager = self.house.host.manager
        actions = [action for _, _, action, _ in manager.timers._waiting]
        return sum(isinstance(action, partial) and action.func == manager.put_back for action in actions)

    async def tidy(self) -> None:
        """What prepared units hold outlives its connection, on purpose, as do delays; nothing else may be held."""
        host = self.house.host
        await until(self._resolved)
        queues = host.manager.objects.queues.values()
        await until(lambda: sum(queue.reserved + queue.uncommitted_gets for queue in queues) == self._delayed())
        for queue in ("Q", "R"):
            host.clear(queue)


@pytest.mark.parametrize("frames", [FRAMES, pytest.param(10 * FRAMES, marks=pytest.mark.torture)])
def test_no_frame_harms_a_server(inside: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch, frames: int) -> None:
    monkeypatch.setattr(password_checks, "FAILURE_DELAY_S", 0.0)
    mangler = Mangler(SEED)

    async def work(house: House) -> None:
        fuzzed = Fuzzed(house, mangler)
        before = 0
        with tell_the_seed(SEED, fuzzed.said):
            while fuzzed.frames < frames:
                await fuzzed.visit(admitted=fuzzed.connections % 10 != 0)
                if fuzzed.connections % 200 == 0:
                    await fuzzed.tidy()
                if not before and fuzzed.frames > frames // 10:
                    before = resident_bytes()
            await fuzzed.tidy()
            assert resident_bytes() - before < GROWTH_BYTES_MAX
            assert fuzzed.slowest_s < HANG_S
            assert house.registry.sessions == {}
            assert house.registry.links == set()
            await well_behaved(house)

    inside(work)


async def well_behaved(house: House) -> None:
    guest = await house.admitted()
    await guest.put("Q", b"1", unit=1, persistent=True)
    await guest.commit(1)
    found = await guest.get("Q")
    assert found is not None
    assert found.body == b"1"


# --- through the kernel --------------------------------------------------------------------------

SOCKET_FRAMES = 5000


@pytest.fixture
def inside(founded: Path, tmp_path: Path) -> Callable[[Work], None]:
    shutil.copytree(founded, tmp_path / "QM1")
    return lambda work: live(tmp_path / "QM1", work)


@pytest.fixture
def server(founded: Path, tmp_path: Path) -> Iterator[ServerThread]:
    shutil.copytree(founded, tmp_path / "QM1")
    with ServerThread(tmp_path / "QM1") as server:
        yield server


async def watched(server: ServerThread, escaped: list[Any]) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))


def burst(server: ServerThread, mangler: Mangler, said: list[bytes]) -> None:
    """A connection that says a few things at once and reads as much as it likes."""
    with open_socket(parse(server.unix_url), PATIENCE_S) as opened:
        said.clear()
        said += [encode(Verb.HELLO, 1, greeting())] * (mangler.random.random() < 0.9)
        said += [mangler.frame() for _ in range(mangler.random.randint(1, 30))]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            opened.sendall(b"".join(said))
            if mangler.random.random() < 0.5:
                opened.shutdown(socket.SHUT_WR)
            opened.settimeout(0.02)
            with contextlib.suppress(TimeoutError):
                while opened.recv(65536):
                    pass


def test_no_frame_harms_a_server_behind_a_socket(server: ServerThread) -> None:
    assert server.server is not None
    registry = server.server.registry
    mangler, said, escaped = Mangler(SEED + 1), [], []  # type: ignore[var-annotated]
    server.run(watched(server, escaped))
    with tell_the_seed(SEED + 1, said), connect(server.unix_url) as good:
        good.put("Q", b"warm")
        before, frames = 0, 0
        while frames < SOCKET_FRAMES:
            burst(server, mangler, said)
            frames += len(said)
            before = before or resident_bytes()
            begun, worked_s = time.monotonic(), time.process_time()  # the server is a thread of this process
            good.put("R", b"1")
            assert good.get("R") is not None
            assert time.process_time() - worked_s < HANG_S
            assert time.monotonic() - begun < 10 * HANG_S
            assert escaped == []
        assert resident_bytes() - before < GROWTH_BYTES_MAX
        deadline = time.monotonic() + PATIENCE_S
        while (len(registry.sessions), len(registry.links)) != (1, 1):
            assert time.monotonic() < deadline, (registry.sessions, registry.links)
            time.sleep(0.01)
        assert len(next(iter(registry.sessions.values())).units) == 0
        with good.unit_of_work() as unit:
            unit.put("Q", b"2", persistent=True)
    assert escaped == []


def test_the_fuzz_reaches_every_verb_and_both_ends() -> None:
    """What is never said is never tested: most verbs must come whole often."""
    mangler = Mangler(1)
    understood: dict[int, int] = {}
    for _ in range(3000):
        frame = mangler.frame()
        if len(frame) > 5:
            understood[frame[4]] = understood.get(frame[4], 0) + 1
    assert all(understood.get(verb, 0) > 5 for verb in verbs.PAYLOADS if verb < 64)
