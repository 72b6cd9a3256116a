# SPDX-License-Identifier: Apache-2.0
"""Payloads of every verb, made from the types of their fields."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from entrepot.message import Message, MessageType, PutInUnit
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import PAYLOADS, Payload, Verb

_whole = st.integers(-(2**63), 2**64 - 1)
_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_plain = st.none() | st.booleans() | _whole | st.floats(allow_nan=False) | _texts | st.binary(max_size=20)
_anything = st.recursive(
    _plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3), max_leaves=8
)

messages = st.builds(
    Message,
    st.binary(max_size=100),
    message_id=st.binary(max_size=24),
    correlation_id=st.binary(max_size=24),
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    type=st.sampled_from(MessageType),
    put_time=st.floats(0, 2**40),
    expiry_s=st.none() | st.floats(0, 2**40),
    delay_s=st.floats(0, 2**40),
    reply_to=_texts,
    group_id=st.binary(max_size=24),
    sequence=st.integers(1, 1000),
    last_in_group=st.booleans(),
    report=st.integers(0, 2**31),
    feedback=st.integers(-(2**31), 2**31),
    format=_texts,
    user=_texts,
    properties=st.dictionaries(_texts, _plain.filter(lambda value: value is not None), max_size=4),
    backout_count=st.integers(0, 1000),
)

_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: _texts,
    int: _whole,
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=40),
    Any: _anything,
    Message: messages,
    Message | None: st.none() | messages,
    list[Message]: st.lists(messages, max_size=3),
    list[str]: st.lists(_texts, max_size=3),
    list[bytes]: st.lists(st.binary(max_size=40), max_size=3),
    list[tuple[str, str, int]]: st.lists(st.tuples(_texts, _texts, _whole), max_size=3),
    list[Any]: st.lists(_anything, max_size=3),
    dict[str, Any]: st.dictionaries(_texts, _anything, max_size=3),
    str | list[str]: _texts | st.lists(_texts, max_size=3),
    bool | None: st.none() | st.booleans(),
    int | None: st.none() | _whole,
    str | None: st.none() | _texts,
    bytes | None: st.none() | st.binary(max_size=40),
    tuple[int, int] | None: st.none() | st.tuples(_whole, _whole),
    list[tuple[int, int]]: st.lists(st.tuples(_whole, _whole), max_size=3),
}


def payloads_of(kind: type[Payload]) -> st.SearchStrategy[Any]:
    """Any payload of a kind. A field of a type that nothing is known about is a KeyError, so that none is left out."""
    fields = {field.name: _BY_TYPE[field.type] for field in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


_BY_TYPE[list[PutInUnit]] = st.lists(
    st.tuples(_texts, st.none() | st.booleans(), st.none() | _whole, _BY_TYPE[Message]), max_size=3
)
_BY_TYPE[verbs.Wanted | None] = st.none() | payloads_of(verbs.Wanted)


def any_frame() -> st.SearchStrategy[tuple[Verb, Any]]:
    return st.sampled_from(sorted(PAYLOADS)).flatmap(lambda verb: st.tuples(st.just(verb), payloads_of(PAYLOADS[verb])))


ASKED = [verb for verb in PAYLOADS if verb < 64]
ANSWERED = [verb for verb in PAYLOADS if verb >= 64]
