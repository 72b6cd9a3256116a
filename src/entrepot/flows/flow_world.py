# SPDX-License-Identifier: Apache-2.0
"""What a flow's nodes may ask of the world.

A kernel is pure: it knows neither queues nor Spark. Its caller passes a world
in: `live/` one with a queue manager behind it, `memory_world` one of
dictionaries for tests, `entrepot.spark` one for the rows of a table.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from entrepot.esql import Database
from entrepot.message import Message

TOPIC = "topic:"
"""Before the destination of a publication."""


class Output(NamedTuple):
    """A message that leaves the flow."""

    destination: str
    """A queue, QUEUE@MANAGER, or `topic:` and a topic."""
    message: Message
    """With everything said: persistence, priority, ids, expiry."""
    node: str = ""
    """Which node has sent it."""


class QueueFacts(NamedTuple):
    """What an input node wants to know about its queue."""

    threshold: int = 0
    """Tries after which a message is set aside; 0: not set."""
    backout_queue: str = ""
    dead_letter_queue: str = ""


class FlowWorld(Protocol):
    """The world beyond the flow, while messages travel."""

    careful: bool
    """Put each output at once, inside of the unit of work, so that a refusal is the node's own error."""

    own_time: bool
    """Whether `now` is something else than the clock's time."""

    def now(self) -> float:
        """Seconds since 1970; a test may say what time it is."""

    def steady_now(self) -> float:
        """The same, for what waits: it only goes forward, whatever the clock is set to."""

    def new_message_id(self) -> bytes:
        """24 bytes that no other message has."""

    def facts(self, queue: str) -> QueueFacts: ...

    def put(self, output: Output) -> None:
        """In the unit of work; raises what the queue manager refuses."""

    def put_now(self, output: Output) -> None:
        """Outside of the unit of work, at once."""

    def get(
        self,
        queue: str,
        *,
        wait_s: float = 0.0,
        message_id: bytes | None = None,
        correlation_id: bytes | None = None,
        selector: str | None = None,
        browse: bool = False,
        transactional: bool = True,
    ) -> Message | None:
        """A message for MQGet, in the unit of work or outside of it."""

    def take(self, store: str, key: bytes) -> Message | None:
        """What was kept under a key, if it is there and free; in the unit of work."""

    def is_kept(self, store: str, key: bytes) -> bool:
        """Whether something is kept under a key; another instance may have it at the moment."""

    @property
    def database(self) -> Database:
        """All data sources of the flow, by name."""

    def database_used(self) -> bool:
        """Whether something was done in a database since the message began; that cannot be undone for it alone."""

    def finish_database(self, source: str) -> None:
        """Commit a node's database work at once, whatever becomes of the message."""

    def allow_time(self, seconds: float) -> None:
        """A node is about to wait for so long at most: its message may take that long, whatever limit it has."""

    def trace(self, destination: str, text: str) -> None:
        """A line for the user trace (destination empty) or a file."""
