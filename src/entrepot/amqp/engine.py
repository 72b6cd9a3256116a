# SPDX-License-Identifier: Apache-2.0
"""Proton's engine, as far as we use it: functions of its C library, called without letting go of Python's lock.

The package python-qpid-proton brings the library with it, inside the private
module `cproton_ffi`; so pyproject.toml pins its version. Neither its wrapper
objects are used, which cost ten times as much as the engine, nor its own
way to call C: that releases Python's lock with every call, and a thread
that forces the log and waits for the lock is woken each time in vain. It
doubled the cost of a persistent message (docs/decisions/0012-amqp-engine.md).

Pointers are plain numbers, and None is C's NULL. A pointer is only as good
as what it points to: whoever frees a link or settles a delivery has to
forget it.
"""

from __future__ import annotations

import ctypes
import logging
from types import SimpleNamespace
from typing import Any

from entrepot.amqp.codec import Malformed, decode_all
from entrepot.amqp.conditions import Refusal

try:
    import cproton_ffi  # type: ignore[import-untyped, import-not-found, unused-ignore]
except ImportError as error:
    raise ImportError("AMQP needs proton: install entrepot[amqp]", name=error.name) from error

_LOGGER = logging.getLogger("entrepot")

Pointer = int | None


class _Tag(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("start", ctypes.c_void_p))


_TYPES: dict[str, Any] = {
    "-": None,
    "pointer": ctypes.c_void_p,
    "text": ctypes.c_char_p,
    "flag": ctypes.c_bool,
    "int": ctypes.c_int,
    "uint": ctypes.c_uint32,
    "ushort": ctypes.c_uint16,
    "long": ctypes.c_int64,
    "ulong": ctypes.c_uint64,
    "size": ctypes.c_size_t,
    "ssize": ctypes.c_ssize_t,
    "tag": _Tag,
}

# As in proton's headers; an enumeration is an int.
_FUNCTIONS = """
pointer pn_collector
- pn_collector_free pointer
pointer pn_collector_peek pointer
flag pn_collector_pop pointer
- pn_collector_release pointer
text pn_condition_get_description pointer
text pn_condition_get_name pointer
flag pn_condition_is_set pointer
int pn_condition_set_description pointer text
int pn_condition_set_name pointer text
pointer pn_connection
- pn_connection_close pointer
- pn_connection_collect pointer pointer
pointer pn_connection_condition pointer
pointer pn_connection_offered_capabilities pointer
- pn_connection_open pointer
pointer pn_connection_properties pointer
- pn_connection_release pointer
text pn_connection_remote_container pointer
- pn_connection_set_container pointer text
- pn_data_clear pointer
ssize pn_data_decode pointer text size
ssize pn_data_encode pointer pointer size
ssize pn_data_encoded_size pointer
int pn_decref pointer
pointer pn_delivery pointer tag
pointer pn_delivery_link pointer
pointer pn_delivery_local pointer
flag pn_delivery_partial pointer
flag pn_delivery_readable pointer
pointer pn_delivery_remote pointer
ulong pn_delivery_remote_state pointer
- pn_delivery_settle pointer
flag pn_delivery_settled pointer
- pn_delivery_update pointer ulong
flag pn_delivery_updated pointer
pointer pn_disposition_condition pointer
pointer pn_disposition_data pointer
flag pn_disposition_is_failed pointer
flag pn_disposition_is_undeliverable pointer
pointer pn_event_delivery pointer
pointer pn_event_link pointer
pointer pn_event_session pointer
int pn_event_type pointer
flag pn_link_advance pointer
- pn_link_close pointer
pointer pn_link_condition pointer
int pn_link_credit pointer
- pn_link_detach pointer
int pn_link_drained pointer
- pn_link_flow pointer int
- pn_link_free pointer
flag pn_link_get_drain pointer
flag pn_link_is_receiver pointer
- pn_link_open pointer
ssize pn_link_recv pointer pointer size
ulong pn_link_remote_max_message_size pointer
int pn_link_remote_rcv_settle_mode pointer
int pn_link_remote_snd_settle_mode pointer
pointer pn_link_remote_source pointer
pointer pn_link_remote_target pointer
ssize pn_link_send pointer text size
pointer pn_link_session pointer
- pn_link_set_max_message_size pointer ulong
- pn_link_set_rcv_settle_mode pointer int
- pn_link_set_snd_settle_mode pointer int
pointer pn_link_source pointer
pointer pn_link_target pointer
- pn_session_close pointer
- pn_session_free pointer
- pn_session_open pointer
size pn_session_outgoing_bytes pointer
- pn_session_set_incoming_capacity pointer size
pointer pn_terminus_capabilities pointer
int pn_terminus_copy pointer pointer
pointer pn_terminus_filter pointer
text pn_terminus_get_address pointer
int pn_terminus_get_distribution_mode pointer
int pn_terminus_get_type pointer
flag pn_terminus_is_dynamic pointer
pointer pn_terminus_properties pointer
int pn_terminus_set_address pointer text
int pn_terminus_set_dynamic pointer flag
int pn_terminus_set_expiry_policy pointer int
pointer pn_transport
int pn_transport_bind pointer pointer
ssize pn_transport_capacity pointer
pointer pn_transport_condition pointer
ssize pn_transport_peek pointer pointer size
ssize pn_transport_pending pointer
- pn_transport_pop pointer size
ssize pn_transport_push pointer text size
int pn_transport_set_channel_max pointer ushort
- pn_transport_set_idle_timeout pointer uint
- pn_transport_set_max_frame pointer uint
- pn_transport_set_server pointer
- pn_transport_set_tracer pointer pointer
long pn_transport_tick pointer long
int pn_transport_unbind pointer
"""


_VERSION = (0, 40)


def _load() -> Any:
    constants: Any = cproton_ffi.lib
    version = (constants.PN_VERSION_MAJOR, constants.PN_VERSION_MINOR)
    if version != _VERSION:
        # Its functions are called with our own declarations of them; a wrong one would crash the process.
        raise ImportError(f"AMQP needs proton 0.40, not {version[0]}.{version[1]}: install entrepot[amqp]")
    library = ctypes.PyDLL(cproton_ffi.__file__)
    functions = SimpleNamespace()
    for line in _FUNCTIONS.strip().split("\n"):
        result, name, *arguments = line.split()
        function = getattr(library, name)
        function.restype = _TYPES[result]
        function.argtypes = [_TYPES[argument] for argument in arguments]
        setattr(functions, name, function)
    return functions


lib: Any = _load()
_constants: Any = cproton_ffi.lib

# Events.
CONNECTION_REMOTE_OPEN: int = _constants.PN_CONNECTION_REMOTE_OPEN
CONNECTION_REMOTE_CLOSE: int = _constants.PN_CONNECTION_REMOTE_CLOSE
SESSION_REMOTE_OPEN: int = _constants.PN_SESSION_REMOTE_OPEN
SESSION_REMOTE_CLOSE: int = _constants.PN_SESSION_REMOTE_CLOSE
LINK_REMOTE_OPEN: int = _constants.PN_LINK_REMOTE_OPEN
LINK_REMOTE_CLOSE: int = _constants.PN_LINK_REMOTE_CLOSE
LINK_REMOTE_DETACH: int = _constants.PN_LINK_REMOTE_DETACH
LINK_FLOW: int = _constants.PN_LINK_FLOW
DELIVERY: int = _constants.PN_DELIVERY
TRANSPORT_ERROR: int = _constants.PN_TRANSPORT_ERROR

# Termini.
COORDINATOR: int = _constants.PN_COORDINATOR
UNSPECIFIED: int = _constants.PN_UNSPECIFIED
DISTRIBUTION_COPY: int = _constants.PN_DIST_MODE_COPY
SENDER_UNSETTLED: int = _constants.PN_SND_UNSETTLED
SENDER_SETTLED: int = _constants.PN_SND_SETTLED
RECEIVER_FIRST: int = _constants.PN_RCV_FIRST
EXPIRE_WITH_LINK: int = _constants.PN_EXPIRE_WITH_LINK

# States of deliveries.
RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED = 0x23, 0x24, 0x25, 0x26, 0x27
DECLARED, TRANSACTIONAL = 0x33, 0x34

# What happens with every message or every event, by names that need not be looked up in `lib`.
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
transport_tick = lib.pn_transport_tick

_BUFFER_BYTES = 65_536
_END = -1
_CONDITION_CHARACTERS_MAX = 1000
# Filled and emptied within one call each, so all connections share it.
_room = ctypes.create_string_buffer(_BUFFER_BYTES)
_buffer = ctypes.addressof(_room)
_string_at = ctypes.string_at
_tag_bytes = ctypes.create_string_buffer(8)
_tag = _Tag(8, ctypes.addressof(_tag_bytes))
_new_delivery = lib.pn_delivery


def read(link: Pointer) -> bytes | None:
    """What has come of a link's current delivery; None when its sender has aborted it."""
    got = link_recv(link, _buffer, _BUFFER_BYTES)
    if got <= 0:
        return b"" if got in (0, _END) else None
    data = _string_at(_buffer, got)
    if got < _BUFFER_BYTES:
        return data
    pieces = [data]
    while (got := link_recv(link, _buffer, _BUFFER_BYTES)) > 0:
        pieces.append(_string_at(_buffer, got))
    return b"".join(pieces)


def new_delivery(link: Pointer, number: int) -> Pointer:
    """A delivery on a link of ours, with a number for its tag."""
    _tag_bytes.raw = number.to_bytes(8, "big")
    delivery: Pointer = _new_delivery(link, _tag)
    return delivery


def push(transport: Pointer, data: bytes) -> bool:
    """Give the engine bytes; False when it listens no longer."""
    at, size = 0, len(data)
    while at < size:
        room = lib.pn_transport_capacity(transport)
        if room <= 0:
            return False
        piece = data if room >= size and at == 0 else data[at : at + room]
        taken = lib.pn_transport_push(transport, piece, len(piece))
        if taken <= 0:
            return False
        at += taken
    return True


def pull(transport: Pointer) -> bytes | None:
    """Some of what the engine has to say; nothing when that is all for now, None when it is all for good."""
    pending = lib.pn_transport_pending(transport)
    if pending <= 0:
        return None if pending < 0 else b""
    got = lib.pn_transport_peek(transport, _buffer, min(pending, _BUFFER_BYTES))
    if got <= 0:
        return None
    data = _string_at(_buffer, got)
    lib.pn_transport_pop(transport, got)
    return data


def text(string: bytes | None) -> str | None:
    """A C string; what is not UTF-8 in it is shown as such."""
    return None if string is None else string.decode(errors="backslashreplace")


def value_of(data: Pointer) -> Any:
    """What a structure of proton's holds; None when it holds nothing.

    Raises:
        Malformed
    """
    size = lib.pn_data_encoded_size(data)
    if size <= 0:
        return None
    room = ctypes.create_string_buffer(size)
    got = lib.pn_data_encode(data, ctypes.addressof(room), size)
    if got <= 0:
        raise Malformed("data that cannot be encoded again")
    return decode_all(room.raw[:got])


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


def _log(_transport: Pointer, line: bytes) -> None:
    _LOGGER.debug("proton: %s", text(line))


_tracer = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(_log)


class EngineParts:
    """A transport, a connection and their collector, which belong together and are freed together."""

    __slots__ = ("collector", "connection", "freed", "transport")

    def __init__(self) -> None:
        self.transport: Pointer = lib.pn_transport()
        self.connection: Pointer = lib.pn_connection()
        self.collector: Pointer = lib.pn_collector()
        self.freed = False
        lib.pn_transport_set_server(self.transport)
        # Else a partner could fill our standard error with the engine's complaints about it.
        lib.pn_transport_set_tracer(self.transport, ctypes.cast(_tracer, ctypes.c_void_p))
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
