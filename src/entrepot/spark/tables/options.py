# SPDX-License-Identifier: Apache-2.0
"""The options of the data source, checked before Spark starts anything; docs/SPARK.md lists them.

Spark does not care about the case of an option's name, and neither do we.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass

from entrepot import checks
from entrepot.client.blocking import Connection
from entrepot.errors import InvalidArgument, QueueNotFound
from entrepot.limits import UNCOMMITTED_MESSAGES_DEFAULT
from entrepot.spark.tables.reaching import require_reachable

READING = (
    "url", "queue", "mode", "selector", "partitions", "maxMessagesPerTrigger", "maxBytesPerTrigger",
    "model", "messageType", "messageFormat",
)  # fmt: skip
WRITING = ("url", "queue", "topic", "persistent", "sink", "messagesPerUnit", "checkpointLocation", "path")
_NUMBER_MAX = 2**31 - 1
_PATTERN = "*?"


def _refuse_unknown(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    names = {name.lower() for name in known}
    for name in options:
        if name.lower() not in names:
            raise InvalidArgument(f"option {name}", "there is no such option", ", ".join(known))


def _number(options: Mapping[str, str], name: str, default: int, high: int = _NUMBER_MAX) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return checks.whole_number(f"option {name}", value, 1, high)


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name, choices[0]).lower()
    if value not in choices:
        raise InvalidArgument(f"option {name}", repr(value), " or ".join(choices))
    return value


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What to read, and how."""

    url: str
    queues: tuple[str, ...]
    """Names, and patterns with * and ?."""
    consume: bool
    selector: str
    partitions: int
    messages_max: int
    bytes_max: int
    model: str
    message_type: str
    message_format: str

    @classmethod
    def read(cls, options: Mapping[str, str]) -> ReadingOptions:
        """
        Raises:
            InvalidArgument: The first option that is wrong.
        """
        _refuse_unknown(options, READING)
        names = tuple(name.strip() for name in options.get("queue", "").split(",") if name.strip())
        if not names:
            raise InvalidArgument(
                "option queue", "it is missing", "a queue, several with commas, or a pattern: ORDERS.*"
            )
        return cls(
            url=require_reachable(options.get("url", "")),
            queues=names,
            consume=_choice(options, "mode", ("browse", "consume")) == "consume",
            selector=options.get("selector", ""),
            partitions=_number(options, "partitions", 2, 10_000),
            messages_max=_number(options, "maxMessagesPerTrigger", 10_000),
            bytes_max=_number(options, "maxBytesPerTrigger", 64 << 20),
            model=options.get("model", ""),
            message_type=options.get("messageType", ""),
            message_format=options.get("messageFormat", ""),
        )

    def names(self, connection: Connection) -> list[str]:
        """The queues that are meant, patterns resolved.

        Raises:
            QueueNotFound: A pattern that no local queue meets.
        """
        found: list[str] = []
        for name in self.queues:
            found += matching(connection, name) if any(sign in name for sign in _PATTERN) else [name]
        return list(dict.fromkeys(found))


def matching(connection: Connection, pattern: str) -> list[str]:
    """The local queues that a pattern means, in the order of their names."""
    answers = connection.mqsc("DISPLAY QLOCAL(*)")
    names = [str(row["QUEUE"]) for answer in answers for row in answer.rows if "QUEUE" in row]
    # A star does not mean the queue manager's own queues.
    own = "" if pattern.startswith("SYSTEM.") else "SYSTEM."
    found = sorted(name for name in names if fnmatch.fnmatchcase(name, pattern) and not (own and name.startswith(own)))
    if not found:
        raise QueueNotFound(pattern)
    return found


@dataclass(frozen=True, slots=True)
class WritingOptions:
    """Where rows go that do not say it themselves, and how."""

    url: str
    destination: str
    """A queue, or topic:// and a topic; empty when each row says it."""
    persistent: bool | None
    """Of rows that do not say it; None: as the queue says."""
    sink: str
    unit_messages: int

    @classmethod
    def read(cls, options: Mapping[str, str]) -> WritingOptions:
        """
        Raises:
            InvalidArgument: The first option that is wrong.
        """
        _refuse_unknown(options, WRITING)
        queue, topic = options.get("queue", ""), options.get("topic", "")
        if queue and topic:
            raise InvalidArgument("option topic", "the queue is said already", "queue or topic")
        return cls(
            url=require_reachable(options.get("url", "")),
            destination=f"topic://{topic}" if topic else queue,
            persistent={"yes": True, "no": False, "queue": None}[
                _choice(options, "persistent", ("yes", "no", "queue"))
            ],
            sink=options.get("sink", ""),
            unit_messages=_number(options, "messagesPerUnit", 1_000, UNCOMMITTED_MESSAGES_DEFAULT),
        )
