# SPDX-License-Identifier: Apache-2.0
"""Two queue managers in processes of their own with a channel between them, and a SIGKILL where the test plans it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from entrepot.channels import receiver as receiver_module
from entrepot.channels import transfer as transfer_module
from entrepot.channels.batch import Batch, Outgoing, Phase
from entrepot.channels.channel_state import ChannelState, change_state
from entrepot.channels.dialler import Dialled, Dialler, GiveUp, MakeLink
from entrepot.channels.initiator import ChannelInitiator
from entrepot.channels.receiver import Receiver
from entrepot.channels.receivers import Receivers
from entrepot.channels.sender import SenderChannel, SenderConnection, Status
from entrepot.channels.transfer import Transfer
from entrepot.engine.definitions import Channel
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError
from entrepot.server.framed_connection import FramedConnection
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire.verbs import ChannelConfirm, ChannelEndOfBatch, ChannelMessage, Verb
from hosted import Host
from recovery.channel_pair import CHANNEL, AcceptedLink

HEAL_S = 60.0
"""Only a failing test ever waits that long."""
When = Literal["sending", "sent", "hearing", "heard", "settled"]
Plant = Callable[[], None]


@dataclass(frozen=True)
class Kill:
    """A signal for one end, at the `count`-th time of something."""

    end: Literal["A", "B"]
    when: When
    verb: Verb | None
    count: int
    signal: signal.Signals = signal.SIGKILL

    def __str__(self) -> str:
        return f"{self.end} {self.when} {self.verb.name if self.verb else ''} {self.count}"


class NotHealed(AssertionError):
    """The channel did not mend itself."""


# --- in the children -----------------------------------------------------------------------------


def _plan(kill: Kill) -> None:
    """Let this process die where it is planned."""
    left = kill.count

    def reached(verb: int | None) -> None:
        nonlocal left
        if verb == kill.verb:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), kill.signal)

    if kill.when in ("sending", "sent"):
        _send_messages_one_by_one()

        def said(link: FramedConnection, verb: int, *_: object) -> None:
            if kill.when == "sent":
                link.flush()  # said within a turn, it is only written at the turn's end
            reached(verb)

        for name in ("send", "send_message"):
            _wrap(FramedConnection, name, kill.when == "sending", said)
    elif kill.when in ("hearing", "heard"):
        if kill.end == "A":
            _wrap(SenderChannel, "on_frame", kill.when == "hearing", lambda channel, link, verb, *_: reached(verb))
        else:
            _wrap(Receiver, "handle", kill.when == "hearing", lambda receiver, verb, *_: reached(verb))
    else:
        _watch_settlements(transfer_module if kill.end == "A" else receiver_module, reached)


def _send_messages_one_by_one() -> None:
    """So that it can be told how many have gone."""

    def send_messages(self: SenderConnection, messages: Sequence[Outgoing]) -> None:
        for sequence, message in messages:
            self.send_message(Verb.CHANNEL_MESSAGE, 0, ChannelMessage(sequence, message))

    SenderConnection.send_messages = send_messages  # type: ignore[method-assign]


def _wrap(owner: Any, name: str, first: bool, look: Callable[..., None]) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any) -> None:
        if first:
            look(*arguments)
        original(*arguments)
        if not first:
            look(*arguments)

    setattr(owner, name, wrapped)


def _watch_settlements(module: Any, reached: Callable[[int | None], None]) -> None:
    """Look in at the moment when the log has something, and nobody has been told yet."""
    original = module.attempt

    def attempt(registry: SessionRegistry, verb: Any, done: Callable[[EntrepotError | None], None]) -> bool:
        def settled(error: EntrepotError | None) -> None:
            reached(None)
            done(error)

        return bool(original(registry, verb, settled))

    module.attempt = attempt


async def _send(path: Path, report: Callable[[str], None]) -> None:
    host = Host(path / "A")
    registry = SessionRegistry(host)
    dialler = Dialler()

    def dial(definition: Channel, first: int, make_link: MakeLink, done: Dialled) -> GiveUp:
        there = replace(definition, connection_name=f"unix:{path}/B")
        return dialler.dial(there, first, make_link, done)

    initiator = ChannelInitiator(registry, open_connection=dial)
    initiator.open()
    if CHANNEL not in initiator.senders:
        initiator.start(CHANNEL)
    channel = initiator.senders[CHANNEL]
    while host.queue_status("B")["CURDEPTH"] or host.in_doubt() or not channel.ledger.is_settled:
        if channel.state is Status.STOPPED:
            report(f"stopped {channel.problem}\n")
            return
        await asyncio.sleep(0.002)
    report("done\n")
    await asyncio.sleep(3600)


async def _receive(path: Path, report: Callable[[str], None]) -> None:
    host = Host(path / "B")
    registry = SessionRegistry(host)
    receivers = Receivers(registry)
    folder = os.open(path / "B", os.O_RDONLY | os.O_DIRECTORY)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        os.unlink("socket", dir_fd=folder)
    listening.bind(f"/proc/self/fd/{folder}/socket")
    listening.listen()
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: AcceptedLink(registry, receivers), sock=listening
    )
    report("listening\n")
    await server.serve_forever()


class Child:
    """A process that runs one end."""

    def __init__(self, path: Path, end: Literal["A", "B"], kill: Kill | None, plant: Plant | None) -> None:
        self.end = end
        self.kill = kill
        self.told = ""
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(read_end)
                if plant is not None:
                    plant()
                if kill is not None:
                    _plan(kill)
                work = _send if end == "A" else _receive
                asyncio.run(work(path, lambda text: os.write(write_end, text.encode()) and None))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(write_end)
        self._pipe = read_end

    def listen(self, wait_s: float) -> None:
        """Read what the child has told, waiting for it at most so long."""
        if select.select([self._pipe], [], [], wait_s)[0]:
            self.told += os.read(self._pipe, 4096).decode()

    def is_killed(self, stopped_s: float) -> bool:
        """Whether it has died as planned; any other death is a failure. One that only stands still is helped up."""
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            time.sleep(stopped_s)
            os.kill(self.pid, signal.SIGCONT)
        if not pid or os.WIFSTOPPED(status):
            return False
        os.close(self._pipe)
        if not os.WIFSIGNALED(status):
            raise NotHealed(f"{self.end} has ended: {self.told}")
        return True

    def end_it(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self._pipe)


def run_lives(
    path: Path, kills: list[Kill], plant: Plant | None = None, heal_s: float = HEAL_S, stopped_s: float = 0.0
) -> int:
    """Let both ends run until all is delivered, dying and restarting as planned; how many died.

    Raises:
        NotHealed: The channel has stopped, or did not come to its end in time.
    """
    plans = {end: [kill for kill in kills if kill.end == end] for end in ("A", "B")}
    killed = 0

    def born(end: Literal["A", "B"]) -> Child:
        return Child(path, end, plans[end].pop(0) if plans[end] else None, plant)

    children: dict[str, Child] = {"B": born("B"), "A": born("A")}
    try:
        healed = time.monotonic()
        while True:
            sender = children["A"]
            sender.listen(0.005)
            if "stopped" in sender.told:
                raise NotHealed(sender.told)
            for end in ("A", "B"):
                if children[end].is_killed(stopped_s):
                    killed += 1
                    children[end] = born(end)  # type: ignore[arg-type]
                    healed = time.monotonic()
            if "done" in sender.told and sender is children["A"]:
                return killed
            if time.monotonic() - healed > heal_s:
                raise NotHealed(f"not within {heal_s} s of the last restart")
    finally:
        # The end is a crash, too.
        for child in children.values():
            child.end_it()


def delivered(path: Path) -> tuple[list[int], int]:
    """The numbers at B in their order, and how many batches A is in doubt about."""
    host = Host(path / "B")
    numbers = [int(message.body) for message in host.browse("Q", None, None, 1_000_000)[0]]
    host.close()
    host = Host(path / "A")
    in_doubt = len(host.in_doubt())
    host.close()
    return numbers, in_doubt


# --- bugs for the negative controls ------------------------------------------------------------------


def confirm_before_commit() -> None:
    """The receiver says that it has the batch before it has."""
    original, committed = Receiver._end_of_batch, Receiver._committed
    early_birds: list[ChannelEndOfBatch] = []

    def early(self: Receiver, payload: ChannelEndOfBatch) -> None:
        if self._committing is not None:
            early_birds.append(payload)  # the sender is ahead of us, because we told it a lie
            return
        self._link.send(Verb.CHANNEL_CONFIRM, 0, ChannelConfirm(payload.batch, payload.sequence))
        original(self, payload)

    def silent(self: Receiver, unit: Unit, after: ChannelState, error: EntrepotError | None) -> None:
        link, self._link = self._link, Mute()  # type: ignore[assignment]
        committed(self, unit, after, error)
        self._link = link
        if early_birds:
            early(self, early_birds.pop(0))

    Receiver._end_of_batch = early  # type: ignore[method-assign]
    Receiver._committed = silent  # type: ignore[method-assign]


class Mute:
    """Says nothing, because it has been said."""

    def send(self, *_: object) -> None: ...


def end_of_batch_before_prepare() -> None:
    """The sender asks for a batch that would not survive its own death."""
    original, confirmed = Transfer._end, Transfer.confirmed
    answers: list[ChannelConfirm] = []

    def early(self: Transfer, batch: Batch) -> None:
        self._link.send(Verb.CHANNEL_END_OF_BATCH, 0, ChannelEndOfBatch(batch.id, batch.sequence))
        original(self, batch)

    def prepared(self: Transfer, batch: Batch) -> None:
        batch.phase = Phase.ASKED
        if answers:
            confirmed(self, answers.pop())
        self.pump()

    def answered(self: Transfer, confirm: ChannelConfirm) -> None:
        if self._ending is not None and self._ending.phase is Phase.PREPARING:
            answers.append(confirm)  # it has come too early, because it was asked for too early
        else:
            confirmed(self, confirm)

    Transfer._end = early  # type: ignore[method-assign]
    Transfer._ask = prepared  # type: ignore[method-assign]
    Transfer.confirmed = answered  # type: ignore[method-assign]


def state_in_a_unit_of_its_own() -> None:
    """The receiver's memory follows its messages, instead of going with them."""

    def apart(self: Receiver, unit: Unit, after: ChannelState) -> None:
        manager = self.registry.engine.manager
        own = manager.internal_unit()

        def then(error: EntrepotError | None) -> None:
            change = change_state(manager, own, self.memory, after, lambda: manager.commit(own))
            receiver_module.attempt(self.registry, change, lambda error: self._committed(own, after, error))

        self._committing = unit
        receiver_module.attempt(self.registry, lambda: manager.commit(unit), then)

    Receiver._commit = apart  # type: ignore[method-assign]
