# SPDX-License-Identifier: Apache-2.0
"""AMQP messages as ours, and ours as AMQP's; docs/AMQP.md has the table.

A bare message that came by AMQP leaves by AMQP as it came: header,
properties, application properties and body. What a descriptor of ours has
no field for becomes a property whose name begins with `amqp_`; what AMQP
has no field for becomes an annotation whose name begins with `x-opt-`.
Bodies are bytes: data sections as they are, a string as UTF-8 with the
format MQSTR, and anything else as encoded sections with the format AMQP.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from entrepot.errors import InvalidArgument, InvalidName
from entrepot.message import Message, MessageType, PropertyValue
from entrepot.server.amqp import identifiers
from entrepot.server.amqp.addresses import TOPIC_SCHEME, parse_address
from entrepot.server.amqp.codec import (
    DECODERS,
    NULL,
    Byte,
    Decimal,
    Malformed,
    decode,
    decode_all,
    encode,
    encode_binary,
    encode_described,
    encode_list,
    encode_map,
    encode_string,
    encode_symbol,
    encode_timestamp,
    encode_uint,
    encode_ulong,
)

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)
_SECTION_NAMES = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}

TEXT_FORMAT = "MQSTR"
SECTIONS_FORMAT = "AMQP"
_UTF8 = 1208
_PRIORITY_DEFAULT = 4
_PRIORITY_MAX = 9
_UINT_MAX = 2**32 - 1

SUBJECT = "amqp_subject"
REPLY_TO = "amqp_reply_to"
CONTENT_TYPE = "amqp_content_type"
CONTENT_ENCODING = "amqp_content_encoding"
REPLY_TO_GROUP_ID = "amqp_reply_to_group_id"
JMS_TYPE = "amqp_jms_type"
BODY = "amqp_body"
"""`value`: the body came as one binary value, not as data. Both are bytes for everybody but AMQP."""
KEPT_PROPERTIES = frozenset({SUBJECT, REPLY_TO, CONTENT_TYPE, CONTENT_ENCODING, REPLY_TO_GROUP_ID, JMS_TYPE, BODY})
_FIELD_OF = {SUBJECT: 3, REPLY_TO: 4, CONTENT_TYPE: 6, CONTENT_ENCODING: 7, REPLY_TO_GROUP_ID: 12}
_SYMBOLIC = frozenset({CONTENT_TYPE, CONTENT_ENCODING})
LAST_IN_GROUP = "JMS_IBM_Last_Msg_In_Group"

_FORMAT = "x-opt-mq-format"
_TYPE = "x-opt-mq-type"
_JMS_TYPE = "x-opt-jms-msg-type"
_DELAY = "x-opt-delivery-delay"
_DELIVERY_TIME = "x-opt-delivery-time"
_RETAIN = "x-opt-retain"
_RETAINED = "x-opt-retained"
_TOPIC = "x-opt-topic"
_RARE = (
    ("x-opt-mq-report", "report"),
    ("x-opt-mq-feedback", "feedback"),
    ("x-opt-mq-ccsid", "ccsid"),
    ("x-opt-mq-encoding", "encoding"),
)
_PLAIN = Message(b"")
# Looking a member up in its enumeration takes longer than anything else here.
_REQUEST, _DATAGRAM = MessageType.REQUEST, MessageType.DATAGRAM


Arrived = tuple[Message, bool, int, str | None]
"""A message as a put takes it: the message, whether it is persistent, its priority, and where its `to` sends it."""


# --- from AMQP ----------------------------------------------------------------------------------


def decode_message(data: bytes, now: float) -> Arrived:
    """A message that came by AMQP; its sender and its limits are for `server.message_checks` to judge.

    Raises:
        Malformed: It is no AMQP message.
        InvalidArgument: It has something that we cannot keep.
    """
    header = _NO_HEADER
    annotations: dict[Any, Any] | None = None
    fields: list[Any] | None = None
    kept: dict[str, PropertyValue] = {}
    pieces: list[bytes] = []
    form = ""
    at, end = 0, len(data)
    try:
        while at < end:
            start = at
            if data[at : at + 2] == b"\x00\x53":
                section = data[at + 2]
                at += 3
            else:
                section, at = _section(data, at)
            if section == DATA:
                piece, at = _data(data, at)
                if form:
                    raise Malformed("a second body")
                pieces.append(piece)
            elif section == HEADER:
                size = _list_bytes(data, at)
                header = _decode_header(data[at : at + size])
                at += size
            elif section == PROPERTIES:
                size = _list_bytes(data, at)
                fields = _decode_properties(data, at, at + size)
                at += size
            elif section == APPLICATION_PROPERTIES:
                application, at = decode(data, at)
                kept = _application_properties(application)
            elif section == MESSAGE_ANNOTATIONS:
                annotations, at = decode(data, at)
            elif section in (VALUE, SEQUENCE):
                if pieces:
                    raise Malformed("a second body")
                piece, form, at = _other_body(data, start, at, section)
                pieces.append(piece)
            elif section in (DELIVERY_ANNOTATIONS, FOOTER):
                _, at = decode(data, at)
            else:
                raise Malformed(f"no section is described by {section}")
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if form == BODY:
            form = ""
            kept[BODY] = "value"
        durable, priority, ttl_ms = header
        if fields is None:
            message = Message(body, expiry_s=ttl_ms / 1000 if ttl_ms else None, format=form, properties=kept)
        else:
            message = _with_fields(fields, body, form, kept, ttl_ms, now)
        if annotations:
            message = _annotated(message, annotations, now)
    except (IndexError, TypeError, AttributeError, ValueError, OverflowError, struct.error) as error:
        # Sections that end too soon, and fields of a type that they must not have.
        raise Malformed(f"not as the standard has it: {error}") from error
    return message, durable, priority, None if fields is None else fields[2]


def _list_bytes(data: bytes, at: int) -> int:
    """How many bytes an encoded list has."""
    code = data[at]
    if code == 0xC0:
        size = 2 + data[at + 1]
    elif code == 0x45:
        size = 1
    elif code == 0xD0:
        size = 5 + int.from_bytes(data[at + 1 : at + 5], "big")
    else:
        raise Malformed("no list where one is needed")
    if at + size > len(data):
        raise Malformed("a list beyond the end")
    return size


_NO_HEADER = (False, _PRIORITY_DEFAULT, 0)


@lru_cache(maxsize=1024)
def _decode_header(encoded: bytes) -> tuple[bool, int, int]:
    """Durable, priority and time to live in milliseconds; cached, because most messages of a sender share them."""
    fields = decode_all(encoded)
    durable, priority, ttl_ms = (*fields[:3], None, None, None)[:3]
    if priority is None:
        priority = _PRIORITY_DEFAULT
    return durable is True, min(max(priority, 0), _PRIORITY_MAX), (ttl_ms or 0) + 0


def _decode_properties(data: bytes, at: int, end: int) -> list[Any]:
    """All thirteen fields; a loop of its own, as there is one for every message and most fields are null."""
    fields: list[Any] = [None] * 13
    code = data[at]
    if code == 0x45:
        return fields
    count, at = (data[at + 2], at + 3) if code == 0xC0 else (int.from_bytes(data[at + 5 : at + 9], "big"), at + 9)
    if count > 13:
        raise Malformed("more properties than there are")
    for index in range(count):
        if data[at] == 0x40:
            at += 1
        else:
            fields[index], at = DECODERS[data[at]](data, at + 1, 0)
    if at != end:
        raise Malformed("properties and their size disagree")
    if fields[2] is not None:
        fields[2] = str.__str__(fields[2])
    return fields


def _data(data: bytes, at: int) -> tuple[bytes, int]:
    code = data[at]
    if code == 0xB0:
        start = at + 5
        end = start + int.from_bytes(data[at + 1 : start], "big")
    elif code == 0xA0:
        start = at + 2
        end = start + data[at + 1]
    else:
        raise Malformed("data that is not binary")
    if end > len(data):
        raise Malformed("data beyond the end")
    return data[start:end], end


def _section(data: bytes, at: int) -> tuple[int, int]:
    if data[at] != 0:
        raise Malformed("a section without a descriptor")
    if data[at + 1] == 0x53:
        section, at = data[at + 2], at + 3
    else:
        descriptor, at = decode(data, at + 1)
        section = _SECTION_NAMES.get(descriptor, 0) if isinstance(descriptor, str) else descriptor
    if not isinstance(section, int) or not HEADER <= section <= FOOTER:
        raise Malformed(f"no section is described by {section}")
    return section, at


def _other_body(data: bytes, start: int, at: int, section: int) -> tuple[bytes, str, int]:
    """A body that is not data: a string as text, else all sections of the body as they came."""
    value, at = decode(data, at)
    if section == VALUE:
        if type(value) is str:
            return value.encode(), TEXT_FORMAT, at
        if type(value) is bytes:
            return value, BODY, at
        return data[start:at], SECTIONS_FORMAT, at
    while at < len(data):
        following, inside = _section(data, at)
        if following != SEQUENCE:
            break
        _, at = decode(data, inside)
    return data[start:at], SECTIONS_FORMAT, at


def _with_fields(
    fields: list[Any], body: bytes, form: str, kept: dict[str, PropertyValue], ttl_ms: int, now: float
) -> Message:
    reply_to = reply_to_manager = ""
    if fields[4] is not None:
        reply_to, reply_to_manager = _reply_to(fields[4], kept)
    if fields[3] is not None or fields[6] is not None or fields[7] is not None or fields[12] is not None:
        for name, index in _FIELD_OF.items():
            if fields[index] is not None and name != REPLY_TO:
                kept[name] = str.__str__(fields[index])
    group_id, sequence, last = b"", 1, False
    if fields[10] is not None:
        group_id = identifiers.group_from_amqp(fields[10])
        sequence = fields[11] or 1
        last = kept.pop(LAST_IN_GROUP, False) is True
    return Message(
        body,
        identifiers.from_amqp(fields[0]),
        b"" if fields[5] is None else identifiers.from_amqp(fields[5]),
        type=_REQUEST if reply_to else _DATAGRAM,
        expiry_s=_expiry_s(ttl_ms, fields[8], now) if ttl_ms or fields[8] is not None else None,
        reply_to=reply_to,
        reply_to_manager=reply_to_manager,
        group_id=group_id,
        sequence=sequence,
        last_in_group=last,
        format=form,
        properties=kept,
    )


def _expiry_s(ttl_ms: int, expires_at_ms: int | None, now: float) -> float | None:
    if ttl_ms:
        return ttl_ms / 1000
    if expires_at_ms is None:
        return None
    # One that has expired on its way expires here, with the reports it asked for.
    return max(expires_at_ms / 1000 - now, 0.001)


def _reply_to(address: str, kept: dict[str, PropertyValue]) -> tuple[str, str]:
    try:
        parsed = parse_address(str.__str__(address))
    except InvalidName:
        parsed = None
    if parsed is None or parsed.kind != "queue":
        kept[REPLY_TO] = str.__str__(address)
        return "", ""
    return parsed.name, parsed.manager


def _application_properties(application: dict[Any, Any]) -> dict[str, PropertyValue]:
    kept: dict[str, PropertyValue] = {}
    for name, value in application.items():
        if not isinstance(name, str):
            raise InvalidArgument("properties", f"{name!r:.60} is no name for a property", "names that are strings")
        if name in KEPT_PROPERTIES:
            raise InvalidArgument("properties", f"{name} is the name of a field", "a name that is not docs/AMQP.md's")
        if value is not None:
            kept[str.__str__(name)] = _property(name, value)
    return kept


def _property(name: str, value: Any) -> PropertyValue:
    kind = type(value)
    if kind in (str, int, float, bool, bytes):
        plain: PropertyValue = value
        return plain
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, int):
        return int(value)
    problem = "a decimal number" if isinstance(value, Decimal) else f"a {kind.__name__}"
    raise InvalidArgument("properties", f"{name:.60} is {problem}", "a string, number, boolean or binary")


def _annotated(message: Message, annotations: dict[Any, Any], now: float) -> Message:
    """What our annotations say; those of others are left out."""
    changed: dict[str, Any] = {}
    if _FORMAT in annotations and not message.format:
        changed["format"] = str.__str__(annotations[_FORMAT])
    if _TYPE in annotations:
        changed["type"] = MessageType(annotations[_TYPE])
    for name, field in _RARE:
        if name in annotations:
            changed[field] = int(annotations[name])
    if annotations.get(_DELAY):
        changed["delay_s"] = max(annotations[_DELAY], 0) / 1000
    elif annotations.get(_DELIVERY_TIME):
        changed["delay_s"] = max(annotations[_DELIVERY_TIME] / 1000 - now, 0.0)
    if _JMS_TYPE in annotations:
        changed["properties"] = {**message.properties, JMS_TYPE: int(annotations[_JMS_TYPE])}
    if annotations.get(_RETAIN) is not None:
        changed["retained"] = annotations[_RETAIN]
        if type(changed["retained"]) is not bool:
            raise InvalidArgument(_RETAIN, f"{changed['retained']!r:.60}", "true or false")
    return replace(message, **changed)


# --- to AMQP ------------------------------------------------------------------------------------


def encode_message(message: Message, to: str) -> bytes:
    """A message as an AMQP receiver gets it from the queue `to`; a publication says its topic instead."""
    kept = message.properties
    expiry_s = message.expiry_s
    ttl_ms = 0 if expiry_s is None else max(math.ceil(expiry_s * 1000), 1)
    head = _header(message.persistent, message.priority, message.backout_count, ttl_ms if ttl_ms <= _UINT_MAX else 0)
    # What most messages have, with nothing in between.
    fields = [
        _identifier(message.message_id),
        encode_binary(message.user.encode()) if message.user else NULL,
        _name(TOPIC_SCHEME + message.topic if message.topic else to),
        NULL,
        NULL,
        _identifier(message.correlation_id) if message.correlation_id else NULL,
        NULL,
        NULL,
        NULL,
        encode_timestamp(int(message.put_time * 1000)),
    ]
    if message.reply_to:
        manager = message.reply_to_manager
        fields[4] = _name(f"{message.reply_to}@{manager}" if manager else message.reply_to)
    if ttl_ms > _UINT_MAX and expiry_s is not None:
        fields[8] = encode_timestamp(int((message.put_time + expiry_s) * 1000))
    if message.group_id:
        fields += [encode_string(identifiers.group_to_amqp(message.group_id)), encode_uint(message.sequence)]
    application = b""
    if kept or message.last_in_group:
        application = _leaving_properties(message, fields)
    kind, body_head = _body_kind(message)
    annotations = _annotations(message, kind)
    described = encode_described(PROPERTIES, encode_list(fields))
    return b"".join((head, annotations, described, application, body_head, message.body))


@lru_cache(maxsize=1024)
def _header(persistent: bool, priority: int, backout_count: int, ttl_ms: int) -> bytes:
    fields = [
        b"\x41" if persistent else NULL,
        NULL if priority == _PRIORITY_DEFAULT else b"\x50" + bytes((priority,)),
        encode_uint(ttl_ms) if ttl_ms else NULL,
        NULL if backout_count else b"\x41",
        encode_uint(min(backout_count, _UINT_MAX)) if backout_count else NULL,
    ]
    return encode_described(HEADER, encode_list(fields))


@lru_cache(maxsize=1024)
def _name(address: str) -> bytes:
    return encode_string(address)


def _identifier(identifier: bytes) -> bytes:
    value = identifiers.to_amqp(identifier)
    if type(value) is bytes:
        return encode_binary(value)
    return encode_ulong(value) if type(value) is int else encode(value)


def _leaving_properties(message: Message, fields: list[bytes]) -> bytes:
    """The application properties; what we have kept for AMQP goes back to its fields."""
    parts: list[bytes] = []
    for name, value in message.properties.items():
        if name in KEPT_PROPERTIES:
            if name in _FIELD_OF and isinstance(value, str):
                fields += [NULL] * (_FIELD_OF[name] + 1 - len(fields))
                symbolic = name in _SYMBOLIC and value.isascii()
                fields[_FIELD_OF[name]] = encode_symbol(value) if symbolic else encode_string(value)
            continue
        parts.append(encode_string(name))
        parts.append(encode(value))
    if message.last_in_group:
        parts += [encode_string(LAST_IN_GROUP), b"\x41"]
    return encode_described(APPLICATION_PROPERTIES, encode_map(parts)) if parts else b""


def _annotations(message: Message, kind: int) -> bytes:
    usual = (
        message.type == (_REQUEST if message.reply_to else _DATAGRAM)
        and not message.report
        and not message.feedback
        and message.ccsid == _UTF8
        and message.encoding == _PLAIN.encoding
    )
    kept = message.properties
    jms_type = kept.get(JMS_TYPE) if kept else None
    form = message.format if kind == DATA else ""
    if usual and jms_type is None and not form and not message.topic:
        return b""
    parts: list[bytes] = []
    if type(jms_type) is int and -128 <= jms_type < 128:
        parts += [encode_symbol(_JMS_TYPE), encode(Byte(jms_type))]
    if not usual:
        parts += [encode_symbol(_TYPE), encode(int(message.type))]
        for name, field in _RARE:
            if getattr(message, field) != getattr(_PLAIN, field):
                parts += [encode_symbol(name), encode(int(getattr(message, field)))]
    if form:
        parts += [encode_symbol(_FORMAT), encode(form)]
    if message.topic:
        parts += [encode_symbol(_TOPIC), encode_string(message.topic)]
        if message.retained:
            parts += [encode_symbol(_RETAINED), b"\x41"]
    return encode_described(MESSAGE_ANNOTATIONS, encode_map(parts))


def _body_kind(message: Message) -> tuple[int, bytes]:
    """The section that a body goes into, and what comes before the body's bytes."""
    body = message.body
    size = len(body)
    if message.format:
        if message.format == TEXT_FORMAT and message.ccsid == _UTF8 and _is_text(body):
            return VALUE, b"\x00\x53\x77\xa1" + bytes((size,)) if size < 256 else _LONG_TEXT + size.to_bytes(4, "big")
        if message.format == SECTIONS_FORMAT and _is_body(body):
            return SEQUENCE, b""
    elif message.properties and message.properties.get(BODY) == "value":
        return VALUE, b"\x00\x53\x77\xa0" + bytes((size,)) if size < 256 else _LONG_VALUE + size.to_bytes(4, "big")
    return DATA, b"\x00\x53\x75\xa0" + bytes((size,)) if size < 256 else _LONG_DATA + size.to_bytes(4, "big")


_LONG_DATA = b"\x00\x53\x75\xb0"
_LONG_VALUE = b"\x00\x53\x77\xb0"
_LONG_TEXT = b"\x00\x53\x77\xb1"


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_body(body: bytes) -> bool:
    """Whether bytes are sections of a body: any program may put a message of the format AMQP."""
    at, found = 0, []
    try:
        while at < len(body):
            section, at = _section(body, at)
            _, at = decode(body, at)
            found.append(section)
    except (Malformed, IndexError):
        return False
    return found == [VALUE] or (bool(found) and set(found) == {SEQUENCE})
