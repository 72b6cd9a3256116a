# SPDX-License-Identifier: Apache-2.0
"""What an administrator defines: queues of every kind, processes, name lists, the queue manager itself.

These are plain values. MQSC reads and writes them, the recovery log stores
them by field name, the queue manager gives them life. MQ's keyword for each
field stands in mqsc/keywords.py.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal

import msgspec

from entrepot import limits
from entrepot.errors import InvalidName

_NAME = re.compile(rf"[A-Za-z0-9._/%]{{1,{limits.NAME_CHARACTERS_MAX}}}", re.ASCII)


def require_name(kind: str, name: object) -> str:
    """The name itself when it is one; names never reach the file system."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidName(kind, str(name))
    return name


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What all definitions share."""

    kind: ClassVar[str] = ""
    """MQSC's word for it."""

    name: str
    description: str = ""


class QueueDefinition(Definition, frozen=True, kw_only=True):
    """What all kinds of queues share."""

    put_enabled: bool = True
    default_persistent: bool = False
    default_priority: int = 0


class StoredQueueDefinition(QueueDefinition, frozen=True, kw_only=True):
    """What queues that hold messages share: local ones, and models of them."""

    get_enabled: bool = True
    depth_max: int = limits.DEPTH_DEFAULT
    body_bytes_max: int = limits.BODY_BYTES_DEFAULT
    delivery: Literal["PRIORITY", "FIFO"] = "PRIORITY"
    usage: Literal["NORMAL", "XMITQ"] = "NORMAL"
    backout_threshold: int = 0
    """How often a message may be backed out before it moves to `backout_queue`; 0 is never."""
    backout_queue: str = ""
    backout_hardened: bool = True
    """Whether a backout count survives the death of the queue manager."""
    trigger_enabled: bool = False
    trigger_type: Literal["NONE", "FIRST", "EVERY", "DEPTH"] = "FIRST"
    trigger_depth: int = 1
    trigger_priority: int = 0
    """Only messages of at least this priority count for triggering."""
    trigger_data: str = ""
    process: str = ""
    initiation_queue: str = ""
    depth_high_percent: int = 80
    depth_low_percent: int = 20
    depth_high_event: bool = False
    depth_low_event: bool = False
    depth_full_event: bool = False
    stream_queue: str = ""
    """A queue that gets a copy of every message that arrives here."""
    stream_required: bool = False
    """Whether a put fails when its copy cannot be put."""
    buffer_bytes: int = limits.QUEUE_BUFFER_BYTES_DEFAULT
    """Memory for this queue's messages; beyond it they go to disk."""


class LocalQueue(StoredQueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QLOCAL"

    dynamic: Literal["", "TEMPORARY", "PERMANENT"] = ""
    """How it came to be, when it was made from a model."""


class ModelQueue(StoredQueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QMODEL"

    dynamic_kind: Literal["TEMPORARY", "PERMANENT"] = "TEMPORARY"


class AliasQueue(QueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QALIAS"

    get_enabled: bool = True
    target: str = ""


class RemoteQueue(QueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QREMOTE"

    remote_queue: str = ""
    """Its name at the other queue manager; empty makes this a queue manager alias."""
    remote_manager: str = ""
    transmission_queue: str = ""
    """Where its messages wait for a channel; empty means a queue named like the manager."""


class Process(Definition, frozen=True, kw_only=True):
    """A program that the trigger monitor starts."""

    kind: ClassVar[str] = "PROCESS"

    application_type: str = "UNIX"
    application_id: str = ""
    """The command line."""
    environment_data: str = ""
    user_data: str = ""


class NameList(Definition, frozen=True, kw_only=True):
    """A list of names; a put to it reaches every queue it names."""

    kind: ClassVar[str] = "NAMELIST"

    names: tuple[str, ...] = ()


class ManagerAttributes(Definition, frozen=True, kw_only=True):
    """The queue manager's own attributes."""

    kind: ClassVar[str] = "QMGR"

    dead_letter_queue: str = "SYSTEM.DEAD.LETTER.QUEUE"
    default_transmission_queue: str = ""
    body_bytes_max: int = limits.BODY_BYTES_MAX
    uncommitted_max: int = limits.UNCOMMITTED_MESSAGES_DEFAULT
    trigger_interval_ms: int = 999_999_999
    """After how long a FIRST trigger is repeated for a queue that still holds messages."""
    performance_events: bool = True


QUEUE_KINDS: tuple[type[QueueDefinition], ...] = (LocalQueue, ModelQueue, AliasQueue, RemoteQueue)
_OTHER_KINDS: tuple[type[Definition], ...] = (Process, NameList, ManagerAttributes)
KINDS: dict[str, type[Definition]] = {kind.kind: kind for kind in _OTHER_KINDS}
KINDS.update((kind.kind, kind) for kind in QUEUE_KINDS)

DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"
INITIATION_QUEUE = "SYSTEM.DEFAULT.INITIATION.QUEUE"
MODEL_QUEUE = "SYSTEM.DEFAULT.MODEL.QUEUE"
PERFORMANCE_EVENT_QUEUE = "SYSTEM.ADMIN.PERFM.EVENT"


def system_objects() -> tuple[Definition, ...]:
    """What every new queue manager has."""
    deep = limits.DEPTH_MAX
    return (
        LocalQueue(
            name=DEAD_LETTER_QUEUE,
            description="Messages that could not be delivered",
            depth_max=deep,
            body_bytes_max=limits.BODY_BYTES_MAX,
        ),
        LocalQueue(name=INITIATION_QUEUE, description="Trigger messages for the trigger monitor"),
        LocalQueue(name=PERFORMANCE_EVENT_QUEUE, description="Queue depth events"),
        ModelQueue(name=MODEL_QUEUE, description="Temporary dynamic queues, for instance for replies"),
    )
