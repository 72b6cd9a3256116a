# SPDX-License-Identifier: Apache-2.0
"""Proton's engine, as far as we use it: the functions of its C library under one roof.

`cproton_ffi` is proton's private module, so pyproject.toml pins its version.
The wrapper objects of the package `proton` are left alone: they cost ten
times as much as the engine. Functions that run with every message are bound
to names here, because looking one up in `lib` takes longer than calling it.

Pointers equal and hash by address. A pointer is only as good as what it
points to: whoever frees a link or settles a delivery has to forget it.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

try:
    import cproton  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import cproton_ffi  # type: ignore[import-untyped, import-not-found, unused-ignore]
except ImportError as error:
    raise ImportError("AMQP needs proton: install entrepot[amqp]", name=error.name) from error

from entrepot.server.amqp.codec import Malformed, decode_all
from entrepot.server.amqp.conditions import Refusal

_LOGGER = logging.getLogger("entrepot")

ffi: Any = cproton_ffi.ffi
lib: Any = cproton_ffi.lib

Pointer = Any
NOTHING: Pointer = ffi.NULL

# Events.
CONNECTION_REMOTE_OPEN: int = lib.PN_CONNECTION_REMOTE_OPEN
CONNECTION_REMOTE_CLOSE: int = lib.PN_CONNECTION_REMOTE_CLOSE
SESSION_REMOTE_OPEN: int = lib.PN_SESSION_REMOTE_OPEN
SESSION_REMOTE_CLOSE: int = lib.PN_SESSION_REMOTE_CLOSE
LINK_REMOTE_OPEN: int = lib.PN_LINK_REMOTE_OPEN
LINK_REMOTE_CLOSE: int = lib.PN_LINK_REMOTE_CLOSE
LINK_REMOTE_DETACH: int = lib.PN_LINK_REMOTE_DETACH
LINK_FLOW: int = lib.PN_LINK_FLOW
DELIVERY: int = lib.PN_DELIVERY
TRANSPORT_ERROR: int = lib.PN_TRANSPORT_ERROR

# Termini.
COORDINATOR: int = lib.PN_COORDINATOR
UNSPECIFIED: int = lib.PN_UNSPECIFIED
DISTRIBUTION_COPY: int = lib.PN_DIST_MODE_COPY
SENDER_UNSETTLED: int = lib.PN_SND_UNSETTLED
SENDER_SETTLED: int = lib.PN_SND_SETTLED
RECEIVER_FIRST: int = lib.PN_RCV_FIRST
EXPIRE_WITH_LINK: int = lib.PN_EXPIRE_WITH_LINK
EXPIRE_NEVER: int = lib.PN_EXPIRE_NEVER
NOT_DURABLE: int = lib.PN_NONDURABLE
DURABLE_DELIVERIES: int = lib.PN_DELIVERIES
SOURCE: int = lib.PN_SOURCE

# States of deliveries.
RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED = 0x23, 0x24, 0x25, 0x26, 0x27
DECLARED, TRANSACTIONAL = 0x33, 0x34

# What happens with every message or every event.
collector_peek = lib.pn_collector_peek
collector_pop = lib.pn_collector_pop
event_type = lib.pn_event_type
event_delivery = lib.pn_event_delivery
event_link = lib.pn_event_link
event_session = lib.pn_event_session
delivery_link = lib.pn_delivery_link
delivery_readable = lib.pn_delivery_readable
delivery_partial = lib.pn_delivery_partial
delivery_settled = lib.pn_delivery_settled
delivery_updated = lib.pn_delivery_updated
delivery_remote_state = lib.pn_delivery_remote_state
delivery_update = lib.pn_delivery_update
delivery_settle = lib.pn_delivery_settle
link_recv = lib.pn_link_recv
link_send = lib.pn_link_send
link_advance = lib.pn_link_advance
link_flow = lib.pn_link_flow
link_credit = lib.pn_link_credit
session_outgoing_bytes = lib.pn_session_outgoing_bytes
transport_capacity = lib.pn_transport_capacity
transport_pending = lib.pn_transport_pending
transport_peek = lib.pn_transport_peek
transport_pop = lib.pn_transport_pop
transport_push = lib.pn_transport_push
transport_tick = lib.pn_transport_tick
unpack = ffi.unpack

_BUFFER_BYTES = 65_536
_END = -1
_CONDITION_CHARACTERS_MAX = 1000


class _ScratchMemory(threading.local):
    """Memory that is filled and emptied within one call: all connections of a loop share it, but not two loops."""

    def __init__(self) -> None:
        self.buffer = ffi.new("char[]", _BUFFER_BYTES)
        self.tag_bytes = ffi.new("char[]", 8)
        self.tag_view = ffi.buffer(self.tag_bytes)
        self.tag = ffi.new("pn_delivery_tag_t *", {"size": 8, "start": self.tag_bytes})


_room = _ScratchMemory()
_new_delivery = lib.pn_delivery


def read(link: Pointer) -> bytes | None:
    """What has come of a link's current delivery; None when its sender has aborted it."""
    buffer = _room.buffer
    got = link_recv(link, buffer, _BUFFER_BYTES)
    if got <= 0:
        return b"" if got in (0, _END) else None
    data: bytes = unpack(buffer, got)
    if got < _BUFFER_BYTES:
        return data
    pieces = [data]
    while (got := link_recv(link, buffer, _BUFFER_BYTES)) > 0:
        pieces.append(unpack(buffer, got))
    return b"".join(pieces)


def new_delivery(link: Pointer, number: int) -> Pointer:
    """A delivery on a link of ours, with a number for its tag."""
    room = _room
    room.tag_view[:] = number.to_bytes(8, "big")
    return _new_delivery(link, room.tag[0])


def push(transport: Pointer, data: bytes) -> bool:
    """Give the engine bytes; False when it listens no longer."""
    at, size = 0, len(data)
    start = ffi.from_buffer(data)
    while at < size:
        room = transport_capacity(transport)
        if room <= 0:
            return False
        taken = transport_push(transport, start + at, min(room, size - at))
        if taken <= 0:
            return False
        at += taken
    return True


def pull(transport: Pointer) -> bytes | None:
    """Some of what the engine has to say; nothing when that is all for now, None when it is all for good."""
    pending = transport_pending(transport)
    if pending <= 0:
        return None if pending < 0 else b""
    buffer = _room.buffer
    got = transport_peek(transport, buffer, min(pending, _BUFFER_BYTES))
    if got <= 0:
        return None
    data: bytes = unpack(buffer, got)
    transport_pop(transport, got)
    return data


def text(string: Pointer) -> str | None:
    """A C string; what is not UTF-8 in it is shown as such."""
    return None if string == NOTHING else ffi.string(string).decode(errors="backslashreplace")


def value_of(data: Pointer) -> Any:
    """What a structure of proton's holds; None when it holds nothing.

    Raises:
        Malformed
    """
    size = lib.pn_data_encoded_size(data)
    if size <= 0:
        return None
    room = bytearray(size)
    got = lib.pn_data_encode(data, ffi.from_buffer(room), size)
    if got <= 0:
        raise Malformed("data that cannot be encoded again")
    return decode_all(bytes(room[:got]))


def set_value(data: Pointer, encoded: bytes) -> None:
    """Let a structure of proton's hold an encoded value, or nothing."""
    lib.pn_data_clear(data)
    if encoded:
        lib.pn_data_decode(data, encoded, len(encoded))


def set_condition(condition: Pointer, refusal: Refusal) -> None:
    lib.pn_condition_set_name(condition, refusal.condition.encode())
    # A C string ends with its first zero.
    lib.pn_condition_set_description(condition, refusal.description.replace("\0", "\\0").encode(errors="replace"))


def condition_text(condition: Pointer) -> str:
    if not lib.pn_condition_is_set(condition):
        return ""
    name, description = lib.pn_condition_get_name(condition), lib.pn_condition_get_description(condition)
    return f"{text(name)}: {text(description) or ''}"[:_CONDITION_CHARACTERS_MAX]


def reject(delivery: Pointer, refusal: Refusal) -> None:
    """Tell a sender why its message was not taken."""
    set_condition(lib.pn_disposition_condition(lib.pn_delivery_local(delivery)), refusal)
    delivery_update(delivery, REJECTED)
    delivery_settle(delivery)


def set_state(delivery: Pointer, state: int, encoded: bytes) -> None:
    """Give a delivery a state that proton does not know itself."""
    set_value(lib.pn_disposition_data(lib.pn_delivery_local(delivery)), encoded)
    delivery_update(delivery, state)


def remote_state_value(delivery: Pointer) -> Any:
    """The fields of a state that proton does not know itself."""
    return value_of(lib.pn_disposition_data(lib.pn_delivery_remote(delivery)))


def _log(_transport: Pointer, line: str) -> None:
    _LOGGER.debug("proton: %s", line)


class EngineParts:
    """A transport, a connection and their collector, which belong together and are freed together."""

    __slots__ = ("collector", "connection", "freed", "transport")

    def __init__(self) -> None:
        self.transport = lib.pn_transport()
        self.connection = lib.pn_connection()
        self.collector = lib.pn_collector()
        self.freed = False
        lib.pn_transport_set_server(self.transport)
        # Else a partner could fill our standard error with the engine's complaints about it.
        attachments = lib.pn_transport_attachments(self.transport)
        cproton.pn_record_def_py(attachments)
        cproton.pn_record_set_py(attachments, {"_tracer": _log})
        lib.pn_transport_set_tracer(self.transport, lib.pn_pytracer)
        lib.pn_connection_collect(self.connection, self.collector)

    def bind(self, *, frame_bytes_max: int, channel_max: int, idle_ms: int) -> None:
        lib.pn_transport_set_max_frame(self.transport, frame_bytes_max)
        lib.pn_transport_set_channel_max(self.transport, channel_max)
        lib.pn_transport_set_idle_timeout(self.transport, idle_ms)
        lib.pn_transport_bind(self.transport, self.connection)

    def free(self) -> None:
        """Give everything back; no pointer that came from here may be used afterwards."""
        if self.freed:
            return
        self.freed = True
        lib.pn_transport_unbind(self.transport)
        lib.pn_connection_release(self.connection)
        # Events hold what they tell of, so they go first.
        lib.pn_collector_release(self.collector)
        lib.pn_decref(self.transport)
        lib.pn_decref(self.connection)
        lib.pn_collector_free(self.collector)
