# SPDX-License-Identifier: Apache-2.0
"""From verbs to bytes and back.

`encode` makes one frame. `encode_parts` does the same for a frame with a
message and leaves a long body where it is: the frame comes in pieces, for a
gathered write, and the body is never copied by us.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from entrepot.errors import FrameTooLong, FrameUnreadable, UnknownVerb
from entrepot.limits import FRAME_OVERHEAD_BYTES_MAX, KIB, PROPERTIES_BYTES_MAX
from entrepot.message import Message
from entrepot.server.wire.frame import HEAD, HEAD_BYTES
from entrepot.server.wire.verbs import ASKED, PAYLOADS, Payload, Verb

LONG_BODY_BYTES = 64 * KIB
"""From here on copying a body costs more than one more piece in a gathered write."""

_ASKED_BYTES_MAX = 64 * KIB
"""What a verb without a message may have: names, ids, numbers, a selector."""
_PROPERTIES_HEADS_BYTES = 16 * KIB

_encoder = msgspec.msgpack.Encoder()
_encode = _encoder.encode
_DECODERS: list[Any] = [None] * 256
for _verb, _payload in PAYLOADS.items():
    _DECODERS[_verb] = msgspec.msgpack.Decoder(_payload).decode
_ASKED_DECODERS = [decoder if verb in ASKED else None for verb, decoder in enumerate(_DECODERS)]

# MessagePack that nests too deep, or text that is none, come as other errors than msgspec's own.
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)

# A body as MessagePack writes an empty one, and one of 32 bits of length.
_EMPTY_BODY = b"\xc4\x00"
_LONG_BODY = b"\xc6"
_NIL_BYTES = 1
_MESSAGE_FIELDS = len(Message.__struct_fields__)
_MESSAGE_HEAD = b"\xdc" + _MESSAGE_FIELDS.to_bytes(2, "big")


def encode(verb: int, number: int, payload: Payload) -> bytes:
    """One frame."""
    content = _encode(payload)
    return HEAD.pack(len(content) + HEAD_BYTES - 4, verb, number) + content


def encode_parts(verb: int, number: int, payload: Any) -> list[bytes]:
    """One frame in pieces; `payload.message` is its last field."""
    message: Message | None = payload.message
    if message is None or len(message.body) < LONG_BODY_BYTES:
        return [encode(verb, number, payload)]
    front = _encode(replace(payload, message=None))[:-_NIL_BYTES]
    fields = _encode(replace(message, body=b""))
    assert fields.startswith(_MESSAGE_HEAD + _EMPTY_BODY), "the body is a message's first field"
    body_head = _MESSAGE_HEAD + _LONG_BODY + len(message.body).to_bytes(4, "big")
    rest = fields[len(_MESSAGE_HEAD) + len(_EMPTY_BODY) :]
    length = len(front) + len(body_head) + len(message.body) + len(rest)
    head = HEAD.pack(length + HEAD_BYTES - 4, verb, number)
    return [head + front + body_head, message.body, rest]


def decode(verb: int, payload: memoryview | bytes) -> Any:
    """What a frame says.

    Raises:
        UnknownVerb, ProtocolError: Close the connection; nothing was done.
    """
    decoder = _DECODERS[verb]
    if decoder is None:
        raise UnknownVerb(verb)
    try:
        return decoder(payload)
    except _UNREADABLE as error:
        raise FrameUnreadable(f"{Verb(verb).name} cannot be understood: {error}") from None


def decode_asked(verb: int, payload: memoryview | bytes) -> Any:
    """What a stranger's frame asks: answers mean nothing here, and only a body may be long.

    MessagePack can make 80 bytes of memory out of every byte that came, for
    instance with empty lists where a property's value should be, and takes
    seconds for it. A body costs just what it is.

    Raises:
        UnknownVerb, ProtocolError: Close the connection; nothing was done.
    """
    decoder = _ASKED_DECODERS[verb]
    if decoder is None:
        raise UnknownVerb(verb)
    try:
        if len(payload) > _ASKED_BYTES_MAX:
            _require_moderate(verb, payload)
        return decoder(payload)
    except _UNREADABLE as error:
        raise FrameUnreadable(f"{Verb(verb).name} cannot be understood: {error}") from None


def _require_moderate(verb: int, payload: memoryview | bytes) -> None:
    sketch = _SKETCHES.get(verb)
    if sketch is None:
        size, size_max = len(payload), FRAME_OVERHEAD_BYTES_MAX if verb == Verb.MQSC else _ASKED_BYTES_MAX
    else:
        message = sketch(payload).message
        size, size_max = len(memoryview(message.properties)), PROPERTIES_BYTES_MAX + _PROPERTIES_HEADS_BYTES
        beside_body = len(payload) - len(memoryview(message.body))
        if beside_body > FRAME_OVERHEAD_BYTES_MAX:
            size, size_max = beside_body, FRAME_OVERHEAD_BYTES_MAX
    if size > size_max:
        raise FrameTooLong(size, size_max)


def _sketch(payload: type[Payload]) -> Any:
    """A decoder that only says where the parts of a frame with a message are."""
    nothing = msgspec.Raw(b"")
    message = msgspec.defstruct(
        "MessageSketch", [(name, msgspec.Raw, nothing) for name in Message.__struct_fields__], array_like=True
    )
    parts: list[Any] = [(name, message if name == "message" else msgspec.Raw) for name in payload.__struct_fields__]
    return msgspec.msgpack.Decoder(msgspec.defstruct("Sketch", parts, array_like=True)).decode


_SKETCHES: dict[int, Any] = {
    verb: _sketch(definition.request) for verb, definition in ASKED.items() if definition.has_message
}
