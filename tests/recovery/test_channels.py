# SPDX-License-Identifier: Apache-2.0
"""Connections break and queue managers die at every step of a channel: nothing is lost, twice or out of order."""

from __future__ import annotations

import asyncio
import resource
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from msgspec.structs import replace

from entrepot.channels import channel_state
from entrepot.channels import sender as sender_module
from entrepot.channels.channel_state import SequenceMark
from entrepot.channels.dialler import Dialler
from entrepot.channels.initiator import ChannelInitiator
from entrepot.channels.receivers import Receivers
from entrepot.channels.sender import SenderChannel, Status
from entrepot.engine.definitions import CHANNEL_INITIATION_QUEUE, Channel, Definition, LocalQueue, RemoteQueue
from entrepot.engine.folder import create
from entrepot.engine.media import backup, restore
from entrepot.errors import ChannelInDoubt, SequenceMismatch
from entrepot.message import Message
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire.verbs import Verb
from hosted import Host
from recovery.channel_pair import CHANNEL, AcceptedLink, Cut, Pair, copy_pair, new_pair, run
from recovery.channel_processes import (
    HEAL_S,
    Kill,
    Plant,
    confirm_before_commit,
    delivered,
    end_of_batch_before_prepare,
    run_lives,
    state_in_a_unit_of_its_own,
)

BATCH_SIZES = (1, 5, 50)
COUNT = 60


def count_for(batch_size: int) -> int:
    """So many messages that each of them makes some batches."""
    return max(COUNT, 4 * batch_size)


MESSAGE, END, CONFIRM = Verb.CHANNEL_MESSAGE, Verb.CHANNEL_END_OF_BATCH, Verb.CHANNEL_CONFIRM
HELLO, WELCOME = Verb.CHANNEL_HELLO, Verb.CHANNEL_WELCOME


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Pairs of queue managers by batch size, with messages that wait for their channel."""
    made: dict[int, Path] = {}

    def template(batch_size: int) -> Path:
        if batch_size not in made:
            path = made[batch_size] = tmp_path_factory.mktemp("channels") / f"of{batch_size}"
            new_pair(path, sender={"batch_size": batch_size})
            host = Host(path / "A")
            unit = host.begin()
            for number in range(count_for(batch_size)):
                host.put("Q@B", Message(b"%d" % number), persistent=True, unit=unit)
            host.commit(unit)
            host.close()
        return made[batch_size]

    return template


# --- connections that break ------------------------------------------------------------------------


def cut_and_check(path: Path, cuts: list[Cut], count: int = COUNT) -> None:
    async def work(pair: Pair) -> None:
        pair.cuts = cuts
        pair.channel.start()
        await pair.delivered(count)
        assert pair.got() == list(range(count))
        assert [str(cut) for cut in cuts if not cut.done] == []

    run(path, work)


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("verb", [MESSAGE, END, CONFIRM], ids=lambda verb: verb.name)
def test_broken_connections_lose_nothing(
    templates: Callable[[int], Path], tmp_path: Path, verb: Verb, after: bool, batch_size: int
) -> None:
    """54 cuts: each flow, before and after it has arrived, three times in a row."""
    counts = (1, 2, 3) if batch_size == 50 and verb is not MESSAGE else (2, 3, 8)
    path = copy_pair(templates(batch_size), tmp_path / "pair")
    cut_and_check(path, [Cut(verb, count, after) for count in counts], count_for(batch_size))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("doubtful", [END, CONFIRM], ids=lambda verb: verb.name)
def test_meetings_that_break_decide_nothing_wrongly(
    templates: Callable[[int], Path], tmp_path: Path, doubtful: Verb, after: bool
) -> None:
    """In doubt, and then even the meetings that should settle it break."""
    meetings = [Cut(HELLO, 2, after=False), Cut(WELCOME, 2, after=False), Cut(WELCOME, 3, after=True)]
    cuts = [Cut(doubtful, 2, after), *meetings]
    cut_and_check(copy_pair(templates(5), tmp_path / "pair"), cuts)


@pytest.mark.torture
def test_broken_connections_lose_nothing_wherever_they_break(templates: Callable[[int], Path], tmp_path: Path) -> None:
    for seed in range(150):
        random = Random(seed)
        batch_size = random.choice((1, 2, 5, 7, 50))
        verbs = random.choices((MESSAGE, END, CONFIRM, HELLO, WELCOME), (6, 3, 3, 1, 1), k=random.randint(2, 8))
        cuts = [Cut(verb, random.randint(1, 12), random.random() < 0.5) for verb in verbs]
        path = copy_pair(templates(batch_size), tmp_path / f"pair{seed}")

        async def work(pair: Pair, cuts: list[Cut] = cuts, count: int = count_for(batch_size)) -> None:
            pair.cuts = cuts
            pair.channel.start()
            await pair.delivered(count)
            assert pair.got() == list(range(count)), cuts

        run(path, work)
        shutil.rmtree(path)


# --- queue managers that die -------------------------------------------------------------------------


SENDERS = [
    [Kill("A", "sent", MESSAGE, 2), Kill("A", "sending", END, 1), Kill("A", "sent", END, 1)],
    [Kill("A", "hearing", CONFIRM, 1), Kill("A", "heard", CONFIRM, 1), Kill("A", "hearing", WELCOME, 1)],
    [Kill("A", "settled", None, 1), Kill("A", "settled", None, 2), Kill("A", "heard", WELCOME, 1)],
]
RECEIVERS = [
    [Kill("B", "heard", MESSAGE, 2), Kill("B", "hearing", END, 1), Kill("B", "heard", END, 1)],
    [Kill("B", "settled", None, 1), Kill("B", "sending", CONFIRM, 1), Kill("B", "sent", CONFIRM, 1)],
    [Kill("B", "sending", WELCOME, 1), Kill("B", "sent", WELCOME, 1), Kill("B", "sent", CONFIRM, 1)],
]
BOTH = [
    [Kill("A", "sent", END, 1), Kill("B", "heard", END, 1), Kill("A", "hearing", WELCOME, 1)],
    [Kill("B", "sending", CONFIRM, 1), Kill("A", "sending", HELLO, 2), Kill("B", "hearing", MESSAGE, 1)],
]


def kill_and_check(
    path: Path, kills: list[Kill], plant: Plant | None = None, heal_s: float = HEAL_S, count: int = COUNT
) -> None:
    killed = run_lives(path, kills, plant, heal_s)
    numbers, in_doubt = delivered(path)
    assert numbers == list(range(count))
    assert in_doubt == 0
    assert killed == len(kills)


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("kills", SENDERS + RECEIVERS, ids=lambda kills: ", ".join(map(str, kills)))
def test_queue_managers_that_die_lose_nothing(
    templates: Callable[[int], Path], tmp_path: Path, kills: list[Kill], batch_size: int
) -> None:
    """54 kills of real processes, three in a row, each at another step of a batch."""
    path = copy_pair(templates(batch_size), tmp_path / "pair")
    kill_and_check(path, kills, count=count_for(batch_size))


@pytest.mark.parametrize("kills", BOTH, ids=lambda kills: ", ".join(map(str, kills)))
def test_both_queue_managers_die(templates: Callable[[int], Path], tmp_path: Path, kills: list[Kill]) -> None:
    kill_and_check(copy_pair(templates(5), tmp_path / "pair"), kills)


@pytest.mark.parametrize("end", ["A", "B"])
def test_a_process_that_stands_still_and_goes_on_loses_nothing(
    templates: Callable[[int], Path], tmp_path: Path, end: Literal["A", "B"]
) -> None:
    """SIGSTOP for longer than two heartbeats, while a batch is under way."""
    path = copy_pair(templates(5), tmp_path / "pair")
    run_lives(path, [Kill(end, "sent", END if end == "A" else CONFIRM, 2, signal.SIGSTOP)], stopped_s=2.5)
    assert delivered(path) == (list(range(COUNT)), 0)


@pytest.mark.torture
def test_queue_managers_that_die_anywhere_lose_nothing(templates: Callable[[int], Path], tmp_path: Path) -> None:
    flows: list[tuple[str, str, Verb | None]] = [
        *(("A", when, verb) for when in ("sending", "sent") for verb in (HELLO, MESSAGE, END)),
        *(("A", when, verb) for when in ("hearing", "heard") for verb in (WELCOME, CONFIRM)),
        *(("B", when, verb) for when in ("hearing", "heard") for verb in (MESSAGE, END)),
        *(("B", when, verb) for when in ("sending", "sent") for verb in (WELCOME, CONFIRM)),
        ("A", "settled", None),
        ("B", "settled", None),
    ]
    killed = 0
    for seed in range(100):
        random = Random(seed)
        batch_size = random.choice((1, 2, 5))
        kills = []
        for end, when, verb in random.choices(flows, k=5):
            often = 1 if verb in (HELLO, WELCOME) else random.randint(1, 3)
            kills.append(Kill(end, when, verb, often))  # type: ignore[arg-type]
        path = copy_pair(templates(batch_size), tmp_path / f"pair{seed}")
        killed += run_lives(path, kills)
        assert delivered(path) == (list(range(COUNT)), 0), (seed, kills)
        shutil.rmtree(path)
    assert killed >= 400


# --- negative controls: each of these bugs is noticed --------------------------------------------------


@pytest.mark.parametrize(
    ("plant", "kill"),
    [
        (confirm_before_commit, Kill("B", "sent", CONFIRM, 2)),
        (end_of_batch_before_prepare, Kill("A", "sent", END, 2)),
        (state_in_a_unit_of_its_own, Kill("B", "settled", None, 3)),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_a_planted_bug_is_noticed(templates: Callable[[int], Path], tmp_path: Path, plant: Plant, kill: Kill) -> None:
    with pytest.raises(AssertionError):
        kill_and_check(copy_pair(templates(5), tmp_path / "planted"), [kill], plant, heal_s=5.0)
    # And without the bug the same kill does no harm.
    kill_and_check(copy_pair(templates(5), tmp_path / "sound"), [kill])


@pytest.mark.parametrize("planted", [False, True])
def test_a_missing_check_of_batch_ids_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """A sender restored from a backup is in doubt about message 5; the receiver has another message 5."""
    if planted:

        def by_number_alone(
            before: SequenceMark, in_doubt: SequenceMark | None, theirs: SequenceMark
        ) -> channel_state.Verdict:
            if in_doubt is not None and theirs.sequence == in_doubt.sequence:
                return "committed"
            return "agreed" if theirs.sequence == before.sequence else "mismatch"

        monkeypatch.setattr(sender_module, "judge", by_number_alone)
        monkeypatch.setattr("entrepot.channels.receiver.judge", by_number_alone)
    new_pair(tmp_path / "pair", sender={"batch_size": 5})

    async def before_the_backup(pair: Pair) -> None:
        pair.put(*range(5), priority=1)
        pair.cuts = [Cut(END, 1, after=False), Cut(CONFIRM, 1, after=False)]
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        pair.channel.stop()
        backup(pair.a, tmp_path / "backup")
        pair.put(*range(100, 105), priority=9)
        pair.channel.start()
        await pair.until(lambda: pair.frames[CONFIRM] == 1)
        pair.channel.stop(force=True)
        assert pair.got() == list(range(100, 105))

    def is_lost(pair: Pair) -> bool:
        return not pair.a.in_doubt() and pair.depth() == 0 and 0 not in pair.got()

    async def after_the_restore(pair: Pair) -> None:
        pair.channel.start()
        await pair.until(lambda: pair.channel.state in (Status.STOPPED, Status.RUNNING))
        if planted:
            await pair.until(lambda: is_lost(pair))
        else:
            await asyncio.sleep(0.05)
            assert not is_lost(pair)
        assert isinstance(pair.channel.problem, SequenceMismatch) != planted

    run(tmp_path / "pair", before_the_backup)
    shutil.rmtree(tmp_path / "pair" / "A")
    restore(tmp_path / "backup", tmp_path / "pair" / "A")
    run(tmp_path / "pair", after_the_restore)


# --- restored from backup ----------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["A", "B"])
def test_an_end_that_was_restored_is_refused_with_both_histories_until_reset(tmp_path: Path, end: str) -> None:
    new_pair(tmp_path / "pair", sender={"batch_size": 5})

    async def before(pair: Pair) -> None:
        pair.put(*range(10))
        pair.channel.start()
        await pair.delivered(10)
        backup(pair.a if end == "A" else pair.b, tmp_path / "backup")
        pair.put(*range(10, 20))
        await pair.delivered(20)

    async def after(pair: Pair) -> None:
        pair.put(20)
        pair.channel.start()
        await pair.stopped()
        problem = pair.channel.problem
        assert isinstance(problem, SequenceMismatch)
        told = (problem.ours.split(" of ")[0], problem.theirs.split(" of ")[0])
        assert told == (("sequence 10", "sequence 20") if end == "A" else ("sequence 20", "sequence 10"))
        assert pair.depth() == 1
        await pair.channel.reset(1)
        await pair.receivers.reset(CHANNEL, 1)
        pair.channel.start()
        await pair.until(lambda: 20 in pair.got() and not pair.a.in_doubt())
        # What the backup did not know is gone from B, as a restore means it.
        assert pair.got() == [*range(20 if end == "A" else 10), 20]
        assert pair.channel.status()["LSTSEQNO"] == 1

    run(tmp_path / "pair", before)
    shutil.rmtree(tmp_path / "pair" / end)
    restore(tmp_path / "backup", tmp_path / "pair" / end)
    run(tmp_path / "pair", after)


def test_reset_never_hides_a_batch_in_doubt(templates: Callable[[int], Path], tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.cuts = [Cut(CONFIRM, 2, after=False)]
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        pair.channel.stop()
        with pytest.raises(ChannelInDoubt):
            await pair.channel.reset(1)
        assert len(pair.a.in_doubt()) == 1
        pair.channel.start()
        await pair.delivered(COUNT)
        assert pair.got() == list(range(COUNT))

    run(copy_pair(templates(5), tmp_path / "pair"), work)


@pytest.mark.parametrize("first", [True, False])
def test_not_even_a_reset_of_the_receiver_hides_a_batch_in_doubt(
    templates: Callable[[int], Path], tmp_path: Path, first: bool
) -> None:
    async def work(pair: Pair) -> None:
        pair.cuts = [Cut(CONFIRM, 1 if first else 3, after=False)]
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        pair.channel.stop()
        sent = len(pair.got())
        await pair.receivers.reset(CHANNEL, 1)  # an operator who did not look first
        pair.channel.start()
        await pair.stopped()
        assert isinstance(pair.channel.problem, SequenceMismatch)
        with pytest.raises(ChannelInDoubt):
            await pair.receivers.reset(CHANNEL, 1)
        with pytest.raises(ChannelInDoubt):
            await pair.channel.reset(1)
        await pair.channel.resolve(commit=True)
        await pair.channel.reset(1)
        pair.channel.start()
        await pair.delivered(COUNT)
        assert pair.got() == list(range(COUNT))
        assert sent == (5 if first else 15)

    run(copy_pair(templates(5), tmp_path / "pair"), work)


@pytest.mark.parametrize("received", [True, False])
def test_doubt_outlives_checkpoints_and_restarts_of_both(
    templates: Callable[[int], Path], tmp_path: Path, received: bool
) -> None:
    async def work(pair: Pair) -> None:
        pair.cuts = [Cut(CONFIRM if received else END, 2, after=False)]
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        pair.channel.stop()
        for _ in range(2):
            await asyncio.to_thread(pair.a.checkpoint)
            await asyncio.to_thread(pair.b.checkpoint)
            pair.put(COUNT, priority=0)
            await pair.crash("a")
            await pair.crash("b")
        assert len(pair.a.in_doubt()) == 1
        pair.channel.start()
        await pair.until(lambda: pair.depth() == 0 and not pair.a.in_doubt())
        assert pair.got() == [*range(COUNT), COUNT, COUNT]

    run(copy_pair(templates(5), tmp_path / "pair"), work)


# --- an operator decides -------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("received", [True, False])
def test_an_operator_decides_rightly_or_wrongly(
    templates: Callable[[int], Path], tmp_path: Path, received: bool, commit: bool, restarted: bool
) -> None:
    """A wrong decision costs exactly one batch, and the ends do not go on without being told so."""

    async def work(pair: Pair) -> None:
        pair.cuts = [Cut(CONFIRM if received else END, 2, after=False)]
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        pair.channel.stop()
        if restarted:
            await pair.crash("a")
        await pair.channel.resolve(commit=commit)
        assert not pair.a.in_doubt()
        assert pair.depth() == COUNT - (10 if commit else 5)
        pair.channel.start()
        if commit == received:
            await pair.delivered(COUNT)
            assert pair.got() == list(range(COUNT))
            return
        await pair.stopped()
        assert isinstance(pair.channel.problem, SequenceMismatch)
        await pair.channel.reset(1)
        await pair.receivers.reset(CHANNEL, 1)
        pair.channel.start()
        batch = [5, 6, 7, 8, 9]
        if commit:
            await pair.delivered(COUNT - 5)
            assert pair.got() == [number for number in range(COUNT) if number not in batch]
        else:
            await pair.delivered(COUNT + 5)
            assert pair.got() == [*range(10), *batch, *range(10, COUNT)]

    run(copy_pair(templates(5), tmp_path / "pair"), work)


# --- real sockets ----------------------------------------------------------------------------------------


async def over_sockets(path: Path, work: Callable[[SenderChannel, Host, Host], Awaitable[None]]) -> None:
    """Both ends in this process, with a socket between them."""
    a, b = Host(path / "A"), Host(path / "B")
    desk_a, desk_b = SessionRegistry(a), SessionRegistry(b)
    receivers = Receivers(desk_b)
    server = await desk_a.loop.create_server(lambda: AcceptedLink(desk_b, receivers), "127.0.0.1", 0)
    definition = a.find("CHANNEL", CHANNEL)
    assert isinstance(definition, Channel)
    place = f"127.0.0.1({server.sockets[0].getsockname()[1]})"
    channel = SenderChannel(
        desk_a, replace(definition, connection_name=f"127.0.0.1(1),{place}"), open_connection=Dialler().dial
    )
    try:
        await work(channel, a, b)
    finally:
        channel.stop(force=True)
        server.close()
        for closing in (desk_a, desk_b, a, b):
            closing.close()


async def emptied(host: Host, queue: str) -> None:
    async with asyncio.timeout(60):
        while host.queue_status(queue)["CURDEPTH"] or host.in_doubt():
            await asyncio.sleep(0.005)


def test_long_messages_travel_by_tcp_and_keep_their_order(tmp_path: Path) -> None:
    new_pair(tmp_path / "pair", sender={"batch_bytes_max": 3_000_000})
    bodies = [bytes([number]) * size for number, size in enumerate([10, 3_000_000, 70_000, 0, 3_500_000, 65_536, 1])]

    async def work(channel: SenderChannel, a: Host, b: Host) -> None:
        for number, body in enumerate(bodies):
            a.put("Q@B", Message(body), persistent=number % 2 == 0)
        channel.start()
        await emptied(a, "B")
        found = [message.body for message in b.browse("Q", None, None, 100)[0]]
        assert [body for body in found if body in bodies[::2]] == bodies[::2]
        assert sorted(found) == sorted(bodies)

    asyncio.run(over_sockets(tmp_path / "pair", work))


def test_persistent_and_fast_messages_share_a_socket(tmp_path: Path) -> None:
    """Batches overlap here, and reads bring many frames at once or parts of one."""
    new_pair(tmp_path / "pair", sender={"batch_size": 20})

    async def work(channel: SenderChannel, a: Host, b: Host) -> None:
        channel.start()
        for start in range(0, 3000, 100):
            unit = a.begin()
            for number in range(start, start + 100):
                a.put("Q@B", Message(b"%d" % number + b" " * (number % 700)), persistent=number % 3 > 0, unit=unit)
            a.commit(unit)
            await asyncio.sleep(0)
        await emptied(a, "B")
        found = [int(message.body) for message in b.browse("Q", None, None, 10_000)[0]]
        persistent = [number for number in found if number % 3 > 0]
        assert persistent == [number for number in range(3000) if number % 3 > 0]
        assert sorted(found) == list(range(3000))

    asyncio.run(over_sockets(tmp_path / "pair", work))


# --- many channels -----------------------------------------------------------------------------------------


async def many_channels(path: Path, count: int) -> None:
    """So many pairs of ends, started by triggers, each with a message; then all are idle on one timer."""
    for name in ("A", "B"):
        create(path / name, name=name)
    a, b = Host(path / "A"), Host(path / "B")
    desk_a, desk_b = SessionRegistry(a), SessionRegistry(b)
    initiator, receivers = ChannelInitiator(desk_a), Receivers(desk_b)
    server = await desk_a.loop.create_server(lambda: AcceptedLink(desk_b, receivers), "127.0.0.1", 0, backlog=1024)
    place = f"127.0.0.1({server.sockets[0].getsockname()[1]})"
    define_all(b, [LocalQueue(name="Q", depth_max=1_000_000)])
    define_all(b, [Channel(name=f"C{n}", channel_type="RCVR") for n in range(count)])
    options = {"usage": "XMITQ", "trigger_enabled": True, "initiation_queue": CHANNEL_INITIATION_QUEUE}
    define_all(a, [LocalQueue(name=f"X{n}", trigger_data=f"C{n}", **options) for n in range(count)])
    way = {"remote_queue": "Q", "remote_manager": "B"}
    define_all(a, [RemoteQueue(name=f"R{n}", transmission_queue=f"X{n}", **way) for n in range(count)])
    to = {"channel_type": "SDR", "connection_name": place}
    define_all(a, [Channel(name=f"C{n}", transmission_queue=f"X{n}", **to) for n in range(count)])
    initiator.open()
    unit = a.begin()
    for number in range(count):
        a.put(f"R{number}", Message(b"%d" % number), persistent=True, unit=unit)
    a.commit(unit)
    async with asyncio.timeout(60):
        while b.queue_status("Q")["CURDEPTH"] < count or a.in_doubt():
            await asyncio.sleep(0.02)
    assert sorted(int(message.body) for message in b.browse("Q", None, None, count)[0]) == list(range(count))
    assert [row["STATUS"] for row in initiator.status()] == ["RUNNING"] * count
    assert len(receivers.status()) == count
    timers = [timer for timer in desk_a.loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    assert len(timers) < 10
    assert len(asyncio.all_tasks()) < 10
    await initiator.close()
    server.close()
    for closing in (desk_a, desk_b, a, b):
        closing.close()


def define_all(host: Host, definitions: Sequence[Definition]) -> None:
    """Many definitions with one force of the log."""
    with host.lock:
        for definition in definitions:
            host.manager.administration.define(definition, replace_existing=False)
    host._force_all()


def test_many_channels_cost_neither_tasks_nor_timers(tmp_path: Path) -> None:
    asyncio.run(many_channels(tmp_path, 150))


@pytest.mark.torture
def test_two_thousand_channels_run_at_once(tmp_path: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most[1], most[1]))
    try:
        asyncio.run(many_channels(tmp_path, 2000))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
