# SPDX-License-Identifier: Apache-2.0
"""A client of AMQP 1.0: proton's engine without its wrapper objects, on a blocking socket.

The stock Python client costs more than any server, so it would measure
itself. One connection and one session, for one thread; whatever comes is
handed to its link by `turn`, which everything that waits calls.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from entrepot.errors import SystemFailed
from entrepot.message import Message
from entrepot.server.amqp import engine
from entrepot.server.amqp.codec import Described, ULong, encode
from entrepot.server.amqp.engine import ACCEPTED, DECLARED, TRANSACTIONAL, Pointer, lib
from entrepot.server.amqp.mapping import decode_message
from entrepot.workbench.systems.processes import LOOPBACK

ANSWER_S = 60.0
_READ_BYTES = 256 * 1024
_FRAME_BYTES_MAX = 65_536
_SESSION_FRAMES = 2048
_DECLARE, _DISCHARGE, _VALUE = ULong(0x31), ULong(0x32), ULong(0x77)
_FULL = "amqp:resource-limit-exceeded"
_SYSTEM = "entrepot-amqp"
AnyLink = TypeVar("AnyLink", bound="_ClientLink")


class AmqpConnection:
    """Links are made by the methods; `close` ends all of them."""

    def __init__(self, port: int, container: str) -> None:
        self._socket = socket.create_connection((LOOPBACK, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._transport, self._connection, self._collector = lib.pn_transport(), lib.pn_connection(), lib.pn_collector()
        lib.pn_connection_collect(self._connection, self._collector)
        lib.pn_connection_set_container(self._connection, container.encode())
        lib.pn_transport_set_max_frame(self._transport, _FRAME_BYTES_MAX)
        lib.pn_transport_bind(self._transport, self._connection)
        lib.pn_connection_open(self._connection)
        self._session = lib.pn_session(self._connection)
        lib.pn_session_set_incoming_capacity(self._session, _SESSION_FRAMES * _FRAME_BYTES_MAX)
        lib.pn_session_open(self._session)
        self._links: dict[Pointer, _ClientLink] = {}
        self._coordinator: TransactionLink | None = None

    # --- links ----------------------------------------------------------------------------------------

    def sender(self, address: str | None, *, settled: bool) -> ClientSendingLink:
        """To an address, or with None to wherever each message says."""
        link = ClientSendingLink(self, lib.pn_sender(self._session, self._name()), settled=settled)
        target = lib.pn_link_target(link.pointer)
        lib.pn_terminus_set_type(target, lib.PN_TARGET)
        if address is not None:
            lib.pn_terminus_set_address(target, address.encode())
        return self._open(link)

    def receiver(self, address: str | None, credit: int, *, settled: bool, durable: str = "") -> ClientReceivingLink:
        """From an address, or with None from a temporary queue that is made for it; `durable` names a subscription."""
        name = durable.encode() if durable else self._name()
        link = ClientReceivingLink(self, lib.pn_receiver(self._session, name), credit)
        source = lib.pn_link_source(link.pointer)
        lib.pn_terminus_set_type(source, lib.PN_SOURCE)
        if address is None:
            lib.pn_terminus_set_dynamic(source, True)
        else:
            lib.pn_terminus_set_address(source, address.encode())
        if durable:
            lib.pn_terminus_set_durability(source, lib.PN_DELIVERIES)
            lib.pn_terminus_set_expiry_policy(source, lib.PN_EXPIRE_NEVER)
        lib.pn_link_set_snd_settle_mode(link.pointer, lib.PN_SND_SETTLED if settled else lib.PN_SND_UNSETTLED)
        # Second: the server settles once its log has what became of a message, and so tells us.
        lib.pn_link_set_rcv_settle_mode(link.pointer, lib.PN_RCV_FIRST if settled else lib.PN_RCV_SECOND)
        self._open(link)
        link.flow(credit)
        self.write()
        return link

    @property
    def coordinator(self) -> TransactionLink:
        if self._coordinator is None:
            link = TransactionLink(self, lib.pn_sender(self._session, self._name()), settled=False)
            lib.pn_terminus_set_type(lib.pn_link_target(link.pointer), lib.PN_COORDINATOR)
            self._coordinator = self._open(link)
        return self._coordinator

    @contextlib.contextmanager
    def transaction(self) -> Iterator[bytes]:
        """Commits at its end what was sent and accepted with it."""
        declared = self.coordinator.declare()
        yield declared
        self.coordinator.discharge(declared)

    def _name(self) -> bytes:
        return f"link-{len(self._links)}".encode()

    def _open(self, link: AnyLink) -> AnyLink:
        self._links[link.pointer] = link
        lib.pn_link_open(link.pointer)
        self.wait(lambda: link.is_open)
        return link

    # --- what goes and comes --------------------------------------------------------------------------

    def wait(self, is_done: Callable[[], bool], timeout_s: float = ANSWER_S) -> None:
        """
        Raises:
            SystemFailed: It is not done in time, or the server has refused something.
        """
        deadline = time.monotonic() + timeout_s
        while not is_done():
            if not self.turn(deadline - time.monotonic()):
                raise SystemFailed(_SYSTEM, f"has not answered for {timeout_s:.0f} s")

    def turn(self, wait_s: float) -> bool:
        """Write what is to be written and take what comes; False when nothing came in time."""
        self.write()
        if not self._poll.poll(max(wait_s, 0.0) * 1000):
            return False
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise SystemFailed(_SYSTEM, "has closed the connection")
        if not engine.push(self._transport, data):
            raise SystemFailed(_SYSTEM, engine.condition_text(lib.pn_transport_condition(self._transport)))
        self._dispatch()
        return True

    def write(self) -> None:
        while data := engine.pull(self._transport):
            self._socket.sendall(data)

    def _dispatch(self) -> None:
        while (event := engine.collector_peek(self._collector)) != engine.NOTHING:
            kind = engine.event_type(event)
            if kind == engine.DELIVERY:
                delivery = engine.event_delivery(event)
                self._links[engine.delivery_link(delivery)].on_delivery(delivery)
            elif kind == engine.LINK_REMOTE_OPEN:
                self._links[engine.event_link(event)].is_open = True
            elif kind in (engine.LINK_REMOTE_CLOSE, engine.LINK_REMOTE_DETACH):
                raise SystemFailed(
                    _SYSTEM, engine.condition_text(lib.pn_link_remote_condition(engine.event_link(event)))
                )
            elif kind == engine.CONNECTION_REMOTE_CLOSE:
                raise SystemFailed(_SYSTEM, engine.condition_text(lib.pn_connection_remote_condition(self._connection)))
            engine.collector_pop(self._collector)

    def close(self) -> None:
        lib.pn_connection_close(self._connection)
        self.write()
        self._socket.close()
        lib.pn_transport_unbind(self._transport)
        lib.pn_connection_release(self._connection)
        lib.pn_collector_release(self._collector)
        lib.pn_decref(self._transport)
        lib.pn_decref(self._connection)
        lib.pn_collector_free(self._collector)


class _ClientLink:
    def __init__(self, connection: AmqpConnection, pointer: Pointer) -> None:
        self.connection = connection
        self.pointer = pointer
        self.is_open = False

    def on_delivery(self, delivery: Pointer) -> None:
        raise NotImplementedError


class ClientSendingLink(_ClientLink):
    """Unsettled messages are counted until the server has accepted them."""

    def __init__(self, connection: AmqpConnection, pointer: Pointer, *, settled: bool) -> None:
        super().__init__(connection, pointer)
        self._settled = settled
        lib.pn_link_set_snd_settle_mode(pointer, lib.PN_SND_SETTLED if settled else lib.PN_SND_UNSETTLED)
        self._number = 0
        self.unanswered = 0
        self.found_it_full = False

    def send(self, data: bytes, transaction: bytes | None = None) -> None:
        """Give a message to the engine; it is written with the next turn."""
        if engine.link_credit(self.pointer) <= 0:
            self.connection.wait(lambda: engine.link_credit(self.pointer) > 0)
        self._number += 1
        delivery = engine.new_delivery(self.pointer, self._number)
        if transaction is not None:
            engine.set_state(delivery, TRANSACTIONAL, encode([transaction]))
        engine.link_send(self.pointer, data, len(data))
        if self._settled:
            engine.delivery_settle(delivery)
        else:
            engine.link_advance(self.pointer)
            self.unanswered += 1

    def await_answers(self) -> None:
        """Return when all that was sent is where it belongs; `found_it_full` when the queue had no room for some."""
        self.connection.wait(lambda: self.unanswered == 0)

    def on_delivery(self, delivery: Pointer) -> None:
        state = engine.delivery_remote_state(delivery)
        if not state:
            return
        if state not in (ACCEPTED, DECLARED, TRANSACTIONAL):
            condition = engine.condition_text(lib.pn_disposition_condition(lib.pn_delivery_remote(delivery)))
            if not condition.startswith(_FULL):
                raise SystemFailed(_SYSTEM, f"has refused a message: {condition or state}")
            self.found_it_full = True
        self.answered(delivery, state)
        engine.delivery_settle(delivery)
        self.unanswered -= 1

    def answered(self, delivery: Pointer, state: int) -> None:
        """Something to remember of an answer, for those that have more to say."""


class TransactionLink(ClientSendingLink):
    """Declares transactions and discharges them."""

    _declared: bytes = b""

    def declare(self) -> bytes:
        self.send(_value(Described(_DECLARE, [None])))
        self.await_answers()
        return self._declared

    def discharge(self, transaction: bytes, *, commit: bool = True) -> None:
        """Return when the server has committed, or has forgotten, what was in the transaction."""
        self.send(_value(Described(_DISCHARGE, [transaction, not commit])))
        self.await_answers()

    def answered(self, delivery: Pointer, state: int) -> None:
        if state == DECLARED:
            [self._declared] = engine.remote_state_value(delivery)


class ClientReceivingLink(_ClientLink):
    """Messages that came by credit; `accept` says that they are done with."""

    def __init__(self, connection: AmqpConnection, pointer: Pointer, credit: int) -> None:
        super().__init__(connection, pointer)
        self._credit = credit
        self._used = 0
        self._pieces: list[bytes] = []
        self._unsettled = 0
        self._arrived: deque[tuple[Pointer, bytes]] = deque()

    @property
    def address(self) -> str:
        """Of the source; the server's choice when it is dynamic."""
        return engine.text(lib.pn_terminus_get_address(lib.pn_link_remote_source(self.pointer))) or ""

    def flow(self, credit: int) -> None:
        engine.link_flow(self.pointer, credit)

    def receive(self, timeout_s: float, limit: int) -> list[tuple[Pointer, Message]]:
        """What has come, up to a limit; only the first is waited for."""
        if not self._arrived:
            deadline = time.monotonic() + timeout_s
            while not self._arrived and self.connection.turn(deadline - time.monotonic()):
                pass
        taken = [self._arrived.popleft() for _ in range(min(limit, len(self._arrived)))]
        self._used += len(taken)
        if self._used >= max(self._credit // 2, 1):
            self.flow(self._used)
            self._used = 0
        now = time.time()
        return [(delivery, decode_message(data, now)[0]) for delivery, data in taken]

    def accept(self, deliveries: list[Pointer]) -> None:
        """Return when the server has it on disk that they are done with."""
        for delivery in deliveries:
            engine.delivery_update(delivery, ACCEPTED)
        self._unsettled += len(deliveries)
        self.connection.wait(lambda: self._unsettled == 0)

    def accept_in(self, deliveries: list[Pointer], transaction: bytes) -> None:
        """They are done with if the transaction commits."""
        state = encode([transaction, Described(ULong(ACCEPTED), [])])
        for delivery in deliveries:
            engine.set_state(delivery, TRANSACTIONAL, state)
            engine.delivery_settle(delivery)

    def on_delivery(self, delivery: Pointer) -> None:
        if engine.delivery_readable(delivery):
            self._pieces.append(engine.read(self.pointer) or b"")
            if engine.delivery_partial(delivery):
                return
            data = b"".join(self._pieces)
            self._pieces = []
            engine.link_advance(self.pointer)
            if engine.delivery_settled(delivery):
                engine.delivery_settle(delivery)
            self._arrived.append((delivery, data))
        elif self._unsettled and engine.delivery_settled(delivery):
            engine.delivery_settle(delivery)
            self._unsettled -= 1


def _value(value: Any) -> bytes:
    return encode(Described(_VALUE, value))
