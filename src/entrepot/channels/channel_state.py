# SPDX-License-Identifier: Apache-2.0
"""How far a channel between queue managers has come, remembered by both of its ends.

Each end keeps its state in a persistent message on SYSTEM.CHANNEL.SYNCQ,
found by its correlation id. The unit of work that moves a batch puts the
new state and takes away what is older. So what an end remembers and where
the messages are can never disagree:

    {"role": "SENDER", "channel": "QM1.QM2", "partner": "QM2", "sequence": 150, "batch": "…", "serial": 3, …}

The newest counts, by `serial`. A sender may have two for a while, because
it prepares a batch when the one before is just being resolved. Its unit is
prepared before it asks for confirmation. One that is still prepared when
the ends meet again is in doubt, and what the receiver remembers decides it
(docs/decisions/0010-channel-state.md).
"""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import SYNCHRONIZATION_QUEUE
from entrepot.engine.entry import QueuedMessage
from entrepot.engine.queue import Queue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import SequenceMismatch
from entrepot.limits import DEPTH_MAX
from entrepot.message import Message

FORMAT = "CHANNEL"
BATCH_ID_BYTES = 16
RESET = b"reset"
"""In the place of a batch id after RESET CHANNEL: an end that was reset agrees with one that was, and not with a
fresh one, or a sender in doubt about its first batch would take it for an answer."""
_KEY_BYTES = 24
_TRANSACTION_HEAD = b"channel"
_SHOWN_BYTES = 4


class Role(enum.StrEnum):
    SENDER = "SENDER"
    RECEIVER = "RECEIVER"
    ORDER = "ORDER"
    """Not an end's state, but what an operator wants of a sender."""


class SequenceMark(NamedTuple):
    """The last message and the last batch of a channel that an end is sure of."""

    sequence: int
    batch: bytes

    def __str__(self) -> str:
        if not self.batch or self.batch == RESET:
            return f"sequence {self.sequence} {'after RESET' if self.batch else 'and no batch yet'}"
        return f"sequence {self.sequence} of batch {self.batch[:_SHOWN_BYTES].hex()}"


class ChannelState(msgspec.Struct, frozen=True):
    """One end of one channel; a receiver has one for every queue manager that sends to it."""

    role: Role
    channel: str
    partner: str = ""
    sequence: int = 0
    batch: bytes = b""
    serial: int = 0
    """How many states came before."""
    time: float = 0.0
    order: Literal["", "STARTED", "STOPPED"] = ""

    @property
    def mark(self) -> SequenceMark:
        return SequenceMark(self.sequence, self.batch)

    def reset_to(self, sequence: int, now: float) -> ChannelState:
        """Begin a new history with this number; a sender takes whom it meets for its partner."""
        partner = self.partner if self.role is Role.RECEIVER else ""
        return self.followed_by(partner, SequenceMark(sequence - 1, RESET), now)

    def followed_by(self, partner: str, mark: SequenceMark, now: float) -> ChannelState:
        """The next state."""
        return ChannelState(self.role, self.channel, partner, *mark, self.serial + 1, now)

    @property
    def key(self) -> bytes:
        # A sender does not know whom it will meet, so its name alone has to do.
        return state_key(self.role, self.channel, self.partner if self.role is Role.RECEIVER else "")

    def __str__(self) -> str:
        partner = f" with {self.partner}" if self.partner else ""
        return f"{self.mark}{partner}"


class InDoubtBatch(NamedTuple):
    """A batch whose confirmation never came: the states before and after it."""

    transaction_id: bytes
    before: ChannelState
    after: ChannelState


Verdict = Literal["agreed", "committed", "backed out", "mismatch"]


def new_batch_id() -> bytes:
    return os.urandom(BATCH_ID_BYTES)


def state_key(role: Role, channel: str, partner: str) -> bytes:
    """The correlation id of a state, so that one among thousands is found by index."""
    return hashlib.sha256(f"{role}\n{channel}\n{partner}".encode()).digest()[:_KEY_BYTES]


def transaction_id(channel: str, batch: bytes) -> bytes:
    """Under which a sender's batch is prepared; another batch never has the same."""
    return _TRANSACTION_HEAD + channel.encode() + batch


def sequence_after(sequence: int, wrap: int) -> int:
    """The number that follows, beginning again at 1 behind `wrap`."""
    return 1 if sequence >= wrap else sequence + 1


def judge(before: SequenceMark, in_doubt: SequenceMark | None, theirs: SequenceMark) -> Verdict:
    """What the receiver's mark says about the sender's; never a guess.

    Both sequence and batch must agree: an end that was restored from a backup
    may have come to the same number by another way.
    """
    if theirs == before:
        return "agreed" if in_doubt is None else "backed out"
    if in_doubt is not None and theirs == in_doubt:
        return "committed"
    return "mismatch"


# --- on the queue; all for the engine's lock ------------------------------------------------------


def read_state(manager: QueueManager, role: Role, channel: str, partner: str = "") -> ChannelState:
    """What an end remembers, or that it remembers nothing; what a prepared unit has in its hands is not seen."""
    empty = ChannelState(role, channel, partner)
    unit = manager.internal_unit()
    unit.counted = False
    newest = _newest([*_take_all(manager, unit, empty.key), empty])
    manager.back_out(unit)
    return newest


def replace_state(manager: QueueManager, unit: Unit, before: ChannelState, after: ChannelState | None) -> None:
    """Let a unit of work change what an end remembers; None forgets it.

    Raises:
        SequenceMismatch: The queue says otherwise than `before`. The unit must be backed out.
    """
    empty = ChannelState(before.role, before.channel, before.partner)
    newest = _newest([*_take_all(manager, unit, before.key), empty])
    # A sender's own last state is not there yet while the log is still to be forced for it.
    lags = before.role is Role.SENDER and newest.serial < before.serial
    if newest.mark != before.mark and not lags:
        raise SequenceMismatch(before.channel, str(before), f"{newest} on {SYNCHRONIZATION_QUEUE}")
    if after is not None:
        stored = Message(msgspec.json.encode(after), correlation_id=before.key, format=FORMAT)
        manager.put(SYNCHRONIZATION_QUEUE, stored, persistent=True, unit=unit, internal=True)


def _take_all(manager: QueueManager, unit: Unit, key: bytes) -> Iterator[ChannelState]:
    while (message := manager.get(SYNCHRONIZATION_QUEUE, Criteria(correlation_id=key), unit)[0]) is not None:
        yield _decode(message)


def _newest(states: Iterable[ChannelState]) -> ChannelState:
    return max(states, key=lambda state: state.serial)


def change_state(
    manager: QueueManager,
    unit: Unit,
    before: ChannelState,
    after: ChannelState | None,
    end: Callable[[], Settlement | None],
) -> Callable[[], Settlement | None]:
    """A verb that replaces a state in a unit and then ends the unit; it may be tried again when the log was full."""
    planned = False

    def verb() -> Settlement | None:
        nonlocal planned
        if not planned:
            planned = True
            replace_state(manager, unit, before, after)
        return end()

    return verb


def find_doubt(manager: QueueManager, channel: str) -> InDoubtBatch | None:
    """The batch that a sender is in doubt about, since before a restart or not."""
    name = _TRANSACTION_HEAD + channel.encode()
    for prepared in manager.in_doubt.units:
        if prepared.startswith(name) and len(prepared) == len(name) + BATCH_ID_BYTES:
            doubt = _doubt(manager, prepared)
            if doubt is not None and doubt.after.channel == channel:
                return doubt
    return None


def channels_in_doubt(manager: QueueManager) -> set[str]:
    """The names of all senders with a batch in doubt."""
    doubts = (_doubt(manager, prepared) for prepared in manager.in_doubt.units if _is_ours(prepared))
    return {doubt.after.channel for doubt in doubts if doubt is not None}


def all_states(manager: QueueManager) -> list[ChannelState]:
    """Everything that channels of this queue manager remember, but for what is in doubt right now."""
    found = manager.browse(SYNCHRONIZATION_QUEUE, None, None, DEPTH_MAX)[0]
    return [_decode(message) for message in found if message.format == FORMAT]


def _is_ours(prepared: bytes) -> bool:
    return prepared.startswith(_TRANSACTION_HEAD) and len(prepared) > len(_TRANSACTION_HEAD) + BATCH_ID_BYTES


def _doubt(manager: QueueManager, prepared: bytes) -> InDoubtBatch | None:
    unit, arrivals = manager.in_doubt.units[prepared]
    after = next(_states(arrivals), None)
    if after is None:
        return None  # an application has prepared it, whatever it calls itself
    taken = _states((take.queue, take.entry) for take in unit.takes)
    return InDoubtBatch(prepared, _newest([*taken, read_state(manager, after.role, after.channel)]), after)


def _states(entries: Iterable[tuple[Queue, QueuedMessage]]) -> Iterator[ChannelState]:
    for queue, entry in entries:
        if queue.definition.name == SYNCHRONIZATION_QUEUE and entry.message.format == FORMAT:
            yield _decode(entry.message)


def _decode(message: Message) -> ChannelState:
    try:
        return msgspec.json.decode(message.body, type=ChannelState)
    except msgspec.MsgspecError as error:
        # Somebody has put it there by hand. An end that does not know its history must not go on.
        problem = f"message {message.message_id.hex()} on {SYNCHRONIZATION_QUEUE} is no state of a channel: {error}"
        raise SequenceMismatch("unknown", problem, "nothing to do with it") from error
