# SPDX-License-Identifier: Apache-2.0
"""One AMQP connection behind its handshake: the engine, our session, and the links between them.

Bytes go through the frame checker into the engine, the engine's events to the
links, and the links turn them into verbs of the session. While the session
is blocked events wait in the engine. Accepted messages are gathered, so
that one range of dispositions is one commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, ClassVar

from entrepot import limits
from entrepot.engine.definitions import Channel
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError
from entrepot.selectors import NotCompiledYet
from entrepot.server.amqp import engine
from entrepot.server.amqp.addresses import TOPIC_SCHEME, kind_of
from entrepot.server.amqp.browsing import BrowsingLink
from entrepot.server.amqp.codec import Malformed, Symbol, Symbols, encode
from entrepot.server.amqp.conditions import INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED, UNKNOWN_ID, Refusal, refusal_of
from entrepot.server.amqp.engine import (
    COORDINATOR,
    DELIVERY,
    DISTRIBUTION_COPY,
    LINK_FLOW,
    UNSPECIFIED,
    EngineParts,
    Pointer,
    collector_peek,
    collector_pop,
    delivery_link,
    event_delivery,
    event_link,
    event_session,
    event_type,
    lib,
    set_condition,
    set_value,
)
from entrepot.server.amqp.frame_checker import CHANNEL_MAX, FRAME_BYTES_MAX, FrameChecker
from entrepot.server.amqp.incoming import IncomingLink
from entrepot.server.amqp.link_subscriptions import LinkSubscriptions
from entrepot.server.amqp.outgoing import OutgoingLink
from entrepot.server.amqp.peer_link import PeerLink, address_of, capabilities_of, plain_kind
from entrepot.server.amqp.sending_link import SendingLink
from entrepot.server.amqp.subscription_link import SubscriptionLink
from entrepot.server.amqp.transaction import CoordinatorLink, Transaction
from entrepot.server.background_work import compile_first
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity, SessionRegistry

_LOGGER = logging.getLogger("entrepot")

_SESSION_FRAMES = 2048
"""How far a partner's session may run ahead of us. Proton counts frames by their largest size, and a small
window would make senders of small messages wait after every few of them."""
_PIECES = 2
"""How many messages of the largest size may be half there at one time."""
_CAPABILITIES = encode(Symbols(("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS")))
# By the prefix Qpid JMS knows which of the addresses that it reads are topics, and writes them so.
_PRODUCT = encode(
    {
        Symbol("product"): "Entrepot",
        Symbol("version"): version("entrepot"),
        Symbol("topic-prefix"): TOPIC_SCHEME,
    }
)


class AmqpConversation:
    """What is said on one connection, from open to close."""

    def __init__(
        self,
        registry: SessionRegistry,
        identity: Identity,
        channel: Channel,
        *,
        wants_flush: Callable[[], None],
        opened: Callable[[Session], None],
        failed: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._identity = identity
        self._channel = channel
        self._opened = opened
        self._failed = failed
        self.wants_flush = wants_flush
        self._session: Session | None = None
        self._frame_checker = FrameChecker()
        self.container = ""
        """What the partner calls itself."""
        self.links: dict[Pointer, PeerLink] = {}
        self.subscriptions = LinkSubscriptions(self)
        self.transactions: dict[bytes, Transaction] = {}
        self.stalled: set[SendingLink] = set()
        """Links whose partner has to take what it was sent first."""
        self.draining: set[OutgoingLink] = set()
        self.pieces_bytes = 0
        """Of messages that have not come whole."""
        self.is_closed = False
        self._accepted: list[Unit] = []
        self._to_settle: list[tuple[OutgoingLink, Pointer]] = []
        self._held = 0
        self._tag = 0
        self._transaction = 0
        self._parts = EngineParts()
        # The engine announces half of what it is told, as the standard advises.
        self._parts.bind(frame_bytes_max=FRAME_BYTES_MAX, channel_max=CHANNEL_MAX, idle_ms=2000 * channel.heartbeat_s)
        engine.push(self._parts.transport, b"AMQP\x00\x01\x00\x00")

    @property
    def session(self) -> Session:
        assert self._session is not None  # the frame checker lets nothing pass before open
        return self._session

    @property
    def body_bytes_max(self) -> int:
        return self._channel.body_bytes_max

    def next_tag(self) -> int:
        self._tag += 1
        return self._tag

    # --- in and out -----------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """The partner has said something."""
        if self.is_closed:
            return
        frames, refusal = self._frame_checker.check(data)
        if frames:
            engine.push(self._parts.transport, frames)
            self.process()
        if refusal is not None:
            self.close(refusal)

    def process(self) -> None:
        """Deal with what the engine has understood, until there is no more or the session has to wait."""
        self._handle_events()
        self.settle()
        self.wants_flush()

    def _handle_events(self) -> None:
        collector = self._parts.collector
        links = self.links
        while event := collector_peek(collector):
            session = self._session
            if self._held or (session is not None and session.blocked):
                break
            kind = event_type(event)
            if kind == DELIVERY:
                delivery = event_delivery(event)
                link = links.get(delivery_link(delivery))
                if link is not None:
                    link.on_delivery(delivery)
            elif kind == LINK_FLOW:
                link = links.get(event_link(event))
                if link is not None:
                    link.on_flow()
            else:
                handler = self._HANDLERS.get(kind)
                if handler is not None:
                    handler(self, event)
                    # An answer may be due that no later event brings with it: a close can be the last event of all,
                    # and be handled only after the flush that a detach before it has waited for.
                    self.wants_flush()
            collector_pop(collector)

    @property
    def is_blocked(self) -> bool:
        return self._held > 0 or (self._session is not None and self._session.blocked)

    def hold(self) -> None:
        """Let the partner's next words wait, until `go_on` is called as often."""
        self._held += 1

    def go_on(self) -> None:
        self._held -= 1
        if not self._held and not self.is_closed:
            # Not at once: whoever calls this may be dealing with an event itself.
            self.session.registry.loop.call_soon(self.guarded, self.session.on_unblocked)

    def pull(self) -> bytes | None:
        """Some of what there is to say; nothing when that is all for now, None when it is all for good."""
        return engine.pull(self._parts.transport)

    def before_flush(self) -> None:
        """The end of a turn of the loop: settle what was accepted, give back credit that found nothing."""
        self.settle()
        if self.draining:
            self.draining = {link for link in self.draining if not link.drain()}

    def after_flush(self) -> None:
        """Something was written: perhaps those who had to wait can go on."""
        # The engine tells a link of its credit whenever it has sent something. Left for later, that would come before
        # the outcomes in the partner's next words, and a message that is released would meet its successor.
        self._handle_events()
        for link in list(self.stalled):
            link.go_on()

    def tick(self, now_ms: int) -> int:
        """Let the engine say that we are there, and notice that the partner is not; returns when to tick again."""
        return int(engine.transport_tick(self._parts.transport, now_ms))

    def guarded(self, what: Callable[[], None]) -> None:
        """Do something on behalf of somebody who must not hear of our troubles."""
        if self.is_closed:
            return
        try:
            what()
        except Exception:
            _LOGGER.exception("AMQP connection from %s", self._identity.address)
            self._failed()

    # --- connections and sessions -----------------------------------------------------------------

    def _open(self, _event: Pointer) -> None:
        connection = self._parts.connection
        application = engine.text(lib.pn_connection_remote_container(connection)) or ""
        host = self._registry.host
        self.container = application
        self._session = Session(self._registry, self._identity, _shortened(application), "AMQP")
        lib.pn_connection_set_container(connection, host.settings.name.encode())
        set_value(lib.pn_connection_offered_capabilities(connection), _CAPABILITIES)
        set_value(lib.pn_connection_properties(connection), _PRODUCT)
        lib.pn_connection_open(connection)
        self._opened(self._session)

    def _close(self, _event: Pointer) -> None:
        self._end()
        lib.pn_connection_close(self._parts.connection)

    def _session_opened(self, event: Pointer) -> None:
        session = event_session(event)
        lib.pn_session_set_incoming_capacity(session, _SESSION_FRAMES * FRAME_BYTES_MAX)
        lib.pn_session_open(session)

    def _session_closed(self, event: Pointer) -> None:
        session = event_session(event)
        for link in [each for each in self.links.values() if each.session_pointer == session]:
            link.end()
            del self.links[link.pointer]
        lib.pn_session_close(session)
        lib.pn_session_free(session)

    def _trouble(self, _event: Pointer) -> None:
        condition = lib.pn_transport_condition(self._parts.transport)
        _LOGGER.info("AMQP connection from %s: %s", self._identity.address, engine.condition_text(condition))

    # --- links --------------------------------------------------------------------------------------

    def _attached(self, event: Pointer) -> None:
        self._attach(event_link(event))

    def _attach(self, pointer: Pointer) -> None:
        link = self.links[pointer] = PeerLink(self, pointer)
        try:
            link = self.links[pointer] = self._link(pointer)
            link.attach()
        except EntrepotError as error:
            link.refuse(refusal_of(error))
        except Malformed as error:
            link.refuse(Refusal(INVALID_FIELD, str(error)))
        except Refusal as refusal:
            link.refuse(refusal)
        except NotCompiledYet as text:
            compile_first(self.session, text.text, partial(self.guarded, partial(self._attach, pointer)))

    def _link(self, pointer: Pointer) -> PeerLink:
        if lib.pn_link_is_receiver(pointer):
            if lib.pn_terminus_get_type(lib.pn_link_remote_target(pointer)) == COORDINATOR:
                return CoordinatorLink(self, pointer)
            return IncomingLink(self, pointer)
        source = lib.pn_link_remote_source(pointer)
        if _is_subscription(source):
            return SubscriptionLink(self, pointer)
        if lib.pn_terminus_get_distribution_mode(source) == DISTRIBUTION_COPY:
            return BrowsingLink(self, pointer)
        return OutgoingLink(self, pointer)

    def _detached(self, event: Pointer) -> None:
        pointer = event_link(event)
        link = self.links.get(pointer)
        if link is None:
            return  # its session has ended before
        if event_type(event) == engine.LINK_REMOTE_CLOSE:
            link.close(partial(self._closed, link))
            return
        link.end()
        del self.links[pointer]
        lib.pn_link_detach(pointer)
        lib.pn_link_free(pointer)

    def _closed(self, link: PeerLink, refusal: Refusal | None) -> None:
        del self.links[link.pointer]
        if refusal is not None:
            set_condition(lib.pn_link_condition(link.pointer), refusal)
        lib.pn_link_close(link.pointer)
        lib.pn_link_free(link.pointer)
        self.wants_flush()

    def require_room_for_pieces(self) -> None:
        """Close a connection that begins large messages and ends none."""
        limit = _PIECES * (self.body_bytes_max + limits.FRAME_OVERHEAD_BYTES_MAX)
        if self.pieces_bytes > limit:
            self.close(Refusal(RESOURCE_LIMIT_EXCEEDED, f"more than {limit} bytes of messages that are not whole"))

    # --- what was accepted, and transactions ----------------------------------------------------------

    def accept(self, lease: Unit, to_settle: tuple[OutgoingLink, Pointer] | None = None) -> None:
        """A message has reached its reader; settle its delivery, if one is given, when the log knows that."""
        if not self._accepted:
            self.wants_flush()
        self._accepted.append(lease)
        if to_settle is not None:
            self._to_settle.append(to_settle)

    def settle(self) -> None:
        """Commit what has been accepted so far."""
        if self._accepted:
            leases, self._accepted = self._accepted, []
            to_settle, self._to_settle = self._to_settle, []
            if not self.session.closed:
                self.session.accept(leases, partial(self._settled, to_settle))

    def _settled(self, to_settle: list[tuple[OutgoingLink, Pointer]], error: EntrepotError | None) -> None:
        if error is not None:
            _LOGGER.warning("accepted messages return to their queues: %s", error)
        for link, delivery in to_settle:
            if not self.is_closed:
                link.forget(delivery)

    def next_transaction(self) -> bytes:
        self._transaction += 1
        return self._transaction.to_bytes(4, "big")

    def transaction(self, fields: Any) -> Transaction:
        """The transaction that a state or a discharge means.

        Raises:
            Refusal: There is none.
        """
        identifier = fields[0] if isinstance(fields, list) and fields else None
        found = self.transactions.get(identifier) if isinstance(identifier, bytes) else None
        if found is None:
            raise Refusal(UNKNOWN_ID, f"no transaction {identifier!r:.60}")
        return found

    # --- the end --------------------------------------------------------------------------------------

    def close(self, refusal: Refusal | None = None) -> None:
        """End the connection from our side, and say why."""
        if self.is_closed:
            return
        self._end()
        connection = self._parts.connection
        if refusal is not None:
            set_condition(lib.pn_connection_condition(connection), refusal)
        if self._session is None:
            lib.pn_connection_open(connection)  # a close has to follow an open
        lib.pn_connection_close(connection)
        self.wants_flush()

    def _end(self) -> None:
        if self.is_closed:
            return
        if self._session is not None:
            self.settle()
            self.is_closed = True
            # Before the links, because it knows what is the partner's; they only forget it.
            self._session.close()
        self.is_closed = True
        for link in self.links.values():
            link.end()
        self.links.clear()
        self.transactions.clear()

    def free(self) -> None:
        """The connection is gone, and with it the engine's memory."""
        self._end()
        self._parts.free()

    _HANDLERS: ClassVar[dict[int, Callable[[AmqpConversation, Pointer], None]]] = {
        engine.CONNECTION_REMOTE_OPEN: _open,
        engine.CONNECTION_REMOTE_CLOSE: _close,
        engine.SESSION_REMOTE_OPEN: _session_opened,
        engine.SESSION_REMOTE_CLOSE: _session_closed,
        engine.LINK_REMOTE_OPEN: _attached,
        engine.LINK_REMOTE_CLOSE: _detached,
        engine.LINK_REMOTE_DETACH: _detached,
        engine.TRANSPORT_ERROR: _trouble,
    }


def _is_subscription(source: Pointer) -> bool:
    """Whether a receiver means a topic, or by no source at all a subscription that it has had before."""
    if lib.pn_terminus_get_type(source) == UNSPECIFIED:
        return True
    if lib.pn_terminus_is_dynamic(source):
        return False
    return kind_of(address_of(source) or "", plain_kind(capabilities_of(source))) == "topic"


def _shortened(application: str) -> str:
    return application.encode()[: limits.TEXT_BYTES_MAX].decode(errors="ignore")
