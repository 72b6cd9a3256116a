# SPDX-License-Identifier: Apache-2.0
"""What the loads rely on, asked of every system that can be measured here.

A server is started once for each quality of a system, and only once for all
of them where the server is the same and slow to start. The form of a system
whose senders wait for each answer shares it. The last test kills it and
starts it again.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import LoadUnsuitable, PortTaken
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import ANSWERED, NAMES, PEERS, absent_reason, base_name, find_system, is_answered
from entrepot.workbench.systems.processes import LOOPBACK
from entrepot.workbench.systems.system import REPLY_S, System, SystemReceiver

WAIT_S = 60.0
"""How long something that has to come may take; who waits so long is on a machine that does much else."""
SILENCE_S = 0.3
"""How long nothing must come, so that there is nothing; too short for a slow machine to show a message too many."""
ONE_SERVER = ("rabbitmq", "activemq", "entrepot-unix", "entrepot-tcp", "entrepot-amqp", "entrepot-channels")
"""Their servers do not know of qualities, and take a second or more to start."""
OF_ITS_OWN = ("quality", "database")
"""What systems with one server do not share: only global units have a database."""


def offered(name: str) -> list[Quality]:
    if absent_reason(name):
        # One case stands for the system, and says why it is skipped.
        return [Quality.EXPRESS]
    return list(find_system(name).contracts)


# The name is in both, because pytest brings tests together that have any of their parameters in common.
CASES = [
    pytest.param(base_name(name), (name, quality), id=f"{name}-{quality}")
    for name in NAMES
    for quality in offered(name)
]
SERVERS = [name for name in NAMES if not is_answered(name)]


class Servers:
    """The running servers of one system, in folders of their own."""

    def __init__(self, name: str) -> None:
        self.kind = find_system(name)
        # Below a folder that servers of other users can get to, and in memory: a killed process leaves its files there.
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="conform-", dir=memory if memory.exists() else None))
        self.folder.chmod(0o755)
        self._started: dict[Quality, System] = {}
        self._limited: System | None = None

    def of(self, quality: Quality) -> System:
        if quality not in self._started:
            if self.kind.name in ONE_SERVER:
                self._start_one_for_all()
            else:
                self._started[quality] = self._start(quality)
        return self._started[quality]

    def answered(self, quality: Quality) -> System:
        """The same running server, with senders that wait for each answer."""
        shared = copy.copy(self.of(quality))
        shared.__class__ = find_system(f"{self.kind.name}{ANSWERED}")
        return shared

    def _start_one_for_all(self) -> None:
        qualities = list(self.kind.contracts)
        with_most = Quality.GLOBAL if Quality.GLOBAL in qualities else qualities[0]
        started = self._start(with_most)
        for quality in qualities:
            shared = copy.copy(started)
            if quality is not with_most and hasattr(shared, "database"):
                shared.database = None
            shared.quality = quality
            self._started[quality] = started if quality is with_most else shared

    def _start(self, quality: Quality) -> System:
        folder = self.folder / quality[:3]
        folder.mkdir()
        system = self.kind(folder, quality)
        return system.__enter__()

    def limited(self, limit_bytes: int) -> System:
        """Recoverable messages, and queues that hold so much; another server where the server has to know it."""
        options = {"queue_limit_bytes": limit_bytes}
        if self.kind.name == "rabbitmq":
            system = copy.copy(self.of(Quality.RECOVERABLE))
            system.options = options
            return system
        folder = self.folder / "limited"
        folder.mkdir()
        self._limited = self.kind(folder, Quality.RECOVERABLE, options)
        self._limited.start()
        return self._limited

    def restart(self, quality: Quality) -> None:
        """Start what was killed; others that share the server find it again."""
        system = self.of(quality)
        system.start()
        if self.kind.name in ONE_SERVER:
            for other in self._started.values():
                vars(other).update({name: value for name, value in vars(system).items() if name not in OF_ITS_OWN})

    def stop(self) -> None:
        for system in (*self._started.values(), self._limited):
            if system is not None:
                system.stop()
        # A server's own helpers, as Erlang has them, end when they see that it has.
        left = becomes(lambda: processes_in(self.folder), [])
        shutil.rmtree(self.folder, ignore_errors=True)
        assert left == []


def processes_in(folder: Path) -> list[str]:
    """Living processes that work in a folder: what a server has left behind."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.joinpath("cwd").resolve().is_relative_to(folder):
                found.append(process.joinpath("cmdline").read_text().replace("\0", " "))
    return found


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    if reason := absent_reason(request.param):
        pytest.skip(f"{request.param}: {reason}")
    running = Servers(request.param)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def system(servers: Servers, case: tuple[str, Quality]) -> System:
    name, quality = case
    return servers.answered(quality) if is_answered(name) else servers.of(quality)


every_quality = pytest.mark.parametrize(("servers", "case"), CASES, indirect=["servers"], scope="module")
every_system = pytest.mark.parametrize("name", NAMES)

_numbers = iter(range(1_000_000))


def new_name(system: System) -> str:
    name = f"Q{next(_numbers)}.{system.quality}"
    system.create_queues([name])
    return name


def bodies_of(count: int, size: int = 100) -> list[bytes]:
    """As the loads make them: a number in front, and then bytes of all kinds."""
    return [number.to_bytes(8, "big") + (bytes(range(256)) * (size // 256 + 1))[: size - 8] for number in range(count)]


def take(receiver: SystemReceiver, count: int, *, commits: bool) -> list[bytes]:
    """So many messages, and whatever else comes with them."""
    taken: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(taken) < count and time.monotonic() < deadline:
        came = receiver.receive(0.5)
        taken += came
        if came and commits:
            receiver.commit()
    return taken


def left_on(system: System, queue: str, count: int = 0) -> list[bytes]:
    """What a new receiver finds: `count` messages, for which it has patience, and what comes at once behind them."""
    receiver = system.receiver(queue)
    try:
        found = take(receiver, count, commits=True)
        while came := receiver.receive(SILENCE_S):
            found += came
            receiver.commit()
        return found
    finally:
        receiver.close()


@every_quality
def test_messages_come_as_they_were_sent_and_in_order(system: System) -> None:
    queue = new_name(system)
    sent = [*bodies_of(25), *bodies_of(5, 70_000), *bodies_of(3, 8)]
    receiver = None if system.keeps_messages else system.receiver(queue)
    sender = system.sender(queue)
    sender.send(sent[:20])
    for body in sent[20:]:
        sender.send([body])
    sender.flush()
    receiver = receiver or system.receiver(queue)
    assert take(receiver, len(sent), commits=True) == sent
    sender.close()
    receiver.close()
    assert left_on(system, queue) == []


@every_quality
def test_what_was_not_committed_comes_again(system: System) -> None:
    if not system.quality.is_persistent:
        pytest.skip("express messages are gone when they are received")
    queue = new_name(system)
    sender = system.sender(queue)
    done, open_ones = bodies_of(2, 50), bodies_of(3, 60)
    receiver = system.receiver(queue)
    sender.send(done)
    assert take(receiver, 2, commits=True) == done
    sender.send(open_ones)
    assert take(receiver, 3, commits=False) == open_ones
    receiver.close()
    again = system.receiver(queue)
    assert take(again, 3, commits=True) == open_ones
    again.close()
    sender.close()
    assert left_on(system, queue) == []


@every_quality
def test_the_depth_is_what_waits(system: System) -> None:
    if not system.keeps_messages:
        pytest.skip("nothing waits there")
    queue = new_name(system)
    if system.depth(queue) is None:
        pytest.skip(f"it cannot tell: {system.settings().get('depth', 'and does not say why')}")
    sender = system.sender(queue)
    sender.send(bodies_of(5))
    sender.flush()
    assert becomes(lambda: system.depth(queue), 5) == 5
    receiver = system.receiver(queue)
    take(receiver, 5, commits=True)
    receiver.close()
    sender.close()
    assert becomes(lambda: system.depth(queue), 0) == 0


def becomes(read: Callable[[], Any], wanted: Any) -> Any:
    """The value when it is the wanted one, or the last one."""
    deadline = time.monotonic() + WAIT_S
    while (value := read()) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


@contextlib.contextmanager
def replying(system: System, queue: str) -> Iterator[None]:
    """A replier where the loads would have it: in a process of its own, or on a thread when all is in one process."""
    context = multiprocessing.get_context("fork")
    is_ready = context.Event()

    def serve() -> None:
        with contextlib.suppress(Exception):  # whatever it meets when its server stops
            system.replier(queue).serve(is_ready.set)

    if system.one_process:
        threading.Thread(target=serve, daemon=True).start()
        assert is_ready.wait(WAIT_S)
        yield
        return
    process = context.Process(target=serve, daemon=True)
    process.start()
    try:
        assert is_ready.wait(WAIT_S)
        yield
    finally:
        process.kill()
        process.join()


@every_quality
def test_each_requester_gets_its_own_replies(system: System) -> None:
    if "requests" not in system.abilities:
        pytest.skip("it has no requests")
    queue = new_name(system)
    replies: dict[int, list[bytes | None]] = {}

    def ask(number: int) -> None:
        requester = system.requester(queue, number)
        replies[number] = [requester.request(body, WAIT_S) for body in bodies_of(10, 100 + number)]
        requester.close()

    with replying(system, queue):
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert replies == {number: bodies_of(10, 100 + number) for number in range(2)}


@every_quality
def test_a_request_that_nobody_answers_gives_none(system: System) -> None:
    if "requests" not in system.abilities:
        pytest.skip("it has no requests")
    requester = system.requester(new_name(system), 7)
    began = time.monotonic()
    assert requester.request(bodies_of(1)[0], timeout_s=0.3) is None
    assert time.monotonic() - began < REPLY_S
    requester.close()


@every_quality
def test_every_subscriber_gets_each_publication(system: System) -> None:
    if "topics" not in system.abilities:
        pytest.skip("it has no topics")
    topic = f"TOPIC{next(_numbers)}.{system.quality}"
    system.create_topics([topic])
    numbers = (next(_numbers), next(_numbers))  # a durable subscription has its name from it, at all of the server
    subscribers = [system.subscriber(topic, number) for number in numbers]
    publisher = system.publisher(topic)
    sent = bodies_of(10)
    publisher.send(sent[:7])
    for body in sent[7:]:
        publisher.send([body])
    publisher.flush()
    assert [take(subscriber, len(sent), commits=True) for subscriber in subscribers] == [sent, sent]
    for subscriber in subscribers:
        subscriber.close()
    if system.quality.is_persistent:
        meanwhile = bodies_of(2, 80)
        publisher.send(meanwhile)
        back = system.subscriber(topic, numbers[1])
        assert take(back, 2, commits=True) == meanwhile
        back.close()
    publisher.close()


@every_quality
def test_it_tells_what_it_is(system: System) -> None:
    assert any(character.isdigit() for character in system.version())
    assert all(isinstance(value, str) and value for value in system.settings().values())
    assert system.is_alive()


@every_system
def test_a_system_lacks_nothing_of_ours(name: str) -> None:
    """Others' software may be absent, and its system skipped; a module of ours may not."""
    try:
        find_system(name)
    except ModuleNotFoundError as error:
        assert not str(error.name).startswith("entrepot")


@every_system
def test_every_quality_has_a_contract_and_others_are_refused(name: str, tmp_path: Path) -> None:
    if reason := absent_reason(name):
        pytest.skip(reason)
    kind = find_system(name)
    assert kind.name == name
    assert kind.contracts
    assert all(isinstance(text, str) and len(text) > 20 for text in kind.contracts.values())
    for quality in set(Quality) - set(kind.contracts):
        with pytest.raises(LoadUnsuitable, match=name):
            kind(tmp_path, quality)


@every_system
def test_stopping_what_was_never_started_is_nothing(name: str, tmp_path: Path) -> None:
    if reason := absent_reason(name):
        pytest.skip(reason)
    kind = find_system(name)
    kind(tmp_path, next(iter(kind.contracts))).stop()


@pytest.mark.parametrize("name", [name for name in PEERS if name in SERVERS])
def test_a_port_that_is_taken_is_told(name: str, tmp_path: Path) -> None:
    if reason := absent_reason(name):
        pytest.skip(reason)
    kind = find_system(name)
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        system = kind(tmp_path, next(iter(kind.contracts)), {"port": port})
        with pytest.raises(PortTaken, match=str(port)), system:
            pass


LIMITED = ("rabbitmq", "activemq")
"""Those that can hold a sender up when a queue is full."""


@pytest.mark.parametrize("servers", LIMITED, indirect=True, scope="module")
def test_a_full_queue_holds_its_sender_up_and_loses_nothing(servers: Servers) -> None:
    system = servers.limited(100_000)
    queue = new_name(system)
    sent = bodies_of(400, 1000)
    sender = system.sender(queue)
    progress = [0]

    def send() -> None:
        for number, body in enumerate(sent, 1):
            sender.send([body])
            progress[0] = number

    # Daemonic, because a sender that is held up would hold up whoever waits for it after a failure.
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    assert becomes(lambda: progress[0] > 10, True)
    before = 0
    while progress[0] > before:
        before = progress[0]
        time.sleep(1.0)
    assert progress[0] <= 110
    receiver = system.receiver(queue)
    assert take(receiver, len(sent), commits=True) == sent
    thread.join(WAIT_S)
    assert not thread.is_alive()
    receiver.close()
    sender.close()


SAFE = [*bodies_of(15), *bodies_of(2, 5000)]


def send_safely(system: System, queue: str) -> None:
    sender = system.sender(queue)
    sender.send(SAFE[:10])
    for body in SAFE[10:]:
        sender.send([body])


@pytest.mark.parametrize("servers", SERVERS, indirect=True, scope="module")
def test_what_was_acknowledged_survives_a_kill(servers: Servers) -> None:
    kind = servers.kind
    safe = [quality for quality in kind.contracts if quality.is_persistent]
    if kind.one_process:
        survive_in_one_process(servers, safe)
        return
    queues = {quality: new_name(servers.of(quality)) for quality in safe}
    for quality, queue in queues.items():
        send_safely(servers.of(quality), queue)
    for quality in kind.contracts:
        kill(servers.of(quality))
        assert becomes(servers.of(quality).is_alive, False) is False
    for number, quality in enumerate(kind.contracts):
        if number == 0 or kind.name not in ONE_SERVER:
            servers.restart(quality)
        system = servers.of(quality)
        assert system.is_alive()
        if quality in queues:
            assert left_on(system, queues[quality], len(SAFE)) == SAFE


def kill(system: System) -> None:
    pids: Sequence[int] = system.pids
    assert pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def survive_in_one_process(servers: Servers, safe: Sequence[Quality]) -> None:
    """The process that has it is the one to kill, so it is a child of ours."""
    for quality in safe:
        folder = servers.folder / f"k{quality[:3]}"
        folder.mkdir()
        queue = f"KILLED.{quality}"

        def use_and_die(folder: Path = folder, quality: Quality = quality, queue: str = queue) -> None:
            system = servers.kind(folder, quality)
            system.start()
            system.create_queues([queue])
            send_safely(system, queue)
            os.kill(os.getpid(), signal.SIGKILL)

        child = multiprocessing.get_context("fork").Process(target=use_and_die, daemon=True)
        child.start()
        child.join(WAIT_S)
        assert child.exitcode == -signal.SIGKILL
        with servers.kind(folder, quality) as system:
            assert left_on(system, queue, len(SAFE)) == SAFE
