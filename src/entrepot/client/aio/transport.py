# SPDX-License-Identifier: Apache-2.0
"""What a client stands on: a line to a queue manager, at the end of a connection or in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from entrepot.client.options import Sender
from entrepot.client.protocol import NOT_ASKED, ClientCore
from entrepot.client.read_ahead import ReadAhead
from entrepot.message import Message, MessageType

Result = TypeVar("Result")


class Transport(Protocol):
    """Verbs gather in its core by steps; a step is taken as a whole, and then sent."""

    core: ClientCore

    @property
    def is_near(self) -> bool:
        """Whether the queue manager is in this process, and lives and dies with us."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def is_connected(self) -> bool: ...

    @property
    def mends_itself(self) -> bool:
        """Whether it connects again when it has broken."""

    @property
    def reconnect_s(self) -> float:
        """How long it tries to."""

    @property
    def problem(self) -> str:
        """Why the last connection broke."""

    async def do(self, step: Callable[[], Result], *, urgent: bool = True) -> Result:
        """Have a connection, take a step, and send what it has gathered; what is not `urgent` may wait for more.

        Raises:
            ConnectFailed, SecurityError: There is no connection to be had. The step was not taken.
            ConnectionClosed, Fenced: The step was not taken.
        """

    async def call(self, verb: int, payload: Any, *, opened: int = 0) -> Any:
        """`do` and `answer` in one, for a verb that belongs to no unit of work.

        `opened`: only on that connection; NOT_ASKED when it is no longer there.
        """

    async def tell(self, verb: int, payload: Any, *, opened: int, urgent: bool = True) -> bool:
        """`do` for a verb that wants no answer; False when that connection is no longer there.

        A PUT that is not `urgent` may share a frame with its neighbours.
        """

    def do_if_connected(self, step: Callable[[], Result]) -> Result | None:
        """Take a step only if there is a connection now; None when there is none."""

    def do_later(self, step: Callable[[], Any]) -> None:
        """The same, soon, for the garbage collector: on any thread, and in the middle of anything."""

    def slot(self) -> Any:
        """Where an answer goes."""

    async def answer(self, slot: Any) -> Any:
        """Wait for what a step has asked.

        Raises:
            ConnectionLost: The connection broke; the outcome is unknown.
            EntrepotError: What the queue manager has answered.
        """

    async def arrived(self, ahead: ReadAhead, deadline: float) -> None:
        """Return when a message has come ahead or something has gone wrong, or at the deadline."""

    def used(self, ahead: ReadAhead) -> None:
        """Let the server know how far a consumer has come: with the next verb, or before its next wait."""

    async def put_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """Put a message that says no more of itself; its id, once it is where it belongs."""

    async def join_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """The same without an answer, and in no hurry."""

    async def reply_plain(
        self, name: str, body: bytes, priority: int | None, correlation_id: bytes, sender: Sender
    ) -> bytes:
        """Put a nonpersistent reply without an answer; its id."""

    async def request_plain(
        self,
        name: str,
        body: bytes,
        reply_queue: str,
        timeout_s: float,
        persistent: bool | None,
        sender: Sender,
        opened: int,
    ) -> Message | None:
        """Put a request and get its reply. None: the connection that made the reply queue is gone; nothing was put.

        Raises:
            RequestTimedOut: No reply came in time.
        """

    async def another(self) -> Self:
        """A second line to the same queue manager."""

    async def close(self) -> None:
        """End it; what is open is backed out."""


class VerbSteps:
    """Verbs by steps, for a line that has no shorter way."""

    if TYPE_CHECKING:
        core: ClientCore

        async def do(self, step: Callable[[], Result], *, urgent: bool = True) -> Result: ...

        def slot(self) -> Any: ...

        async def answer(self, slot: Any) -> Any: ...

        def do_if_connected(self, step: Callable[[], Result]) -> Result | None: ...

    async def call(self, verb: int, payload: Any, *, opened: int = 0) -> Any:
        """See `Transport.call`."""
        core, slot = self.core, self.slot()

        def step() -> bool:
            if opened and core.opened != opened:
                return False
            core.ask(verb, payload, slot)
            return True

        return await self.answer(slot) if await self.do(step) else NOT_ASKED

    async def tell(self, verb: int, payload: Any, *, opened: int, urgent: bool = True) -> bool:
        """See `Transport.tell`."""

        def step() -> bool:
            if self.core.opened != opened:
                return False
            if urgent:
                self.core.tell(verb, payload)
            else:
                self.core.join(payload)
            return True

        return await self.do(step, urgent=urgent)

    def used(self, ahead: ReadAhead) -> None:
        """See `Transport.used`."""
        self.do_if_connected(partial(self.core.used, ahead))

    async def put_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """See `Transport.put_plain`."""
        slot = self.slot()
        put = partial(self.core.put_any, name, body, persistent, None, b"", MessageType.DATAGRAM, sender, slot)
        message_id = await self.do(put)
        await self.answer(slot)
        return message_id

    async def join_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """See `Transport.join_plain`."""
        return await self.do(partial(self.core.join_any, name, body, persistent, sender), urgent=False)

    async def reply_plain(
        self, name: str, body: bytes, priority: int | None, correlation_id: bytes, sender: Sender
    ) -> bytes:
        """See `Transport.reply_plain`."""
        return await self.do(
            partial(self.core.put_any, name, body, False, priority, correlation_id, MessageType.REPLY, sender, None)
        )

    async def request_plain(
        self,
        name: str,
        body: bytes,
        reply_queue: str,
        timeout_s: float,
        persistent: bool | None,
        sender: Sender,
        opened: int,
    ) -> Message | None:
        """See `Transport.request_plain`."""
        core, slot = self.core, self.slot()

        def step() -> bool:
            if core.opened != opened:
                return False
            core.request_any(name, body, reply_queue, timeout_s, persistent, sender, slot)
            return True

        if not await self.do(step):
            return None
        reply: Message = await self.answer(slot)
        return reply
