# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.server.amqp.codec import Malformed
from entrepot.server.amqp.identifiers import from_amqp, group_from_amqp, group_to_amqp, to_amqp
from folding import for_each

TRICKY = st.sampled_from(["AMQP_ULONG:", "AMQP_UUID:", "AMQP_BINARY:", "AMQP_STRING:", "ID:"])
TEXTS = st.one_of(st.text(), st.builds(str.__add__, TRICKY, st.text()))
AMQP_IDS = st.one_of(
    TEXTS,
    st.binary(),
    TEXTS.map(str.encode),
    st.builds(bytes.__add__, TRICKY.map(str.encode), st.binary()),
    st.integers(0, 2**64 - 1),
    st.uuids(),
)


@given(AMQP_IDS)
def test_amqp_ids_return_as_they_came(identifier: Any) -> None:
    returned = to_amqp(from_amqp(identifier))
    assert returned == identifier
    assert type(returned) is type(identifier)


@given(st.binary(min_size=1).filter(lambda identifier: not identifier.startswith(b"AMQP_")))
def test_our_ids_return_as_they_went(identifier: bytes) -> None:
    assert from_amqp(to_amqp(identifier)) == identifier


@for_each(
    ("identifier", "ours"),
    [
        (None, b""),
        ("order-7", b"order-7"),
        (b"\x01\xff", b"\x01\xff"),
        (7, b"AMQP_ULONG:7"),
        (UUID(int=7), b"AMQP_UUID:00000000-0000-0000-0000-000000000007"),
        (b"order-7", b"AMQP_BINARY:order-7"),
        ("tab\there", b"AMQP_STRING:tab\there"),
        ("", b"AMQP_STRING:"),
        (b"", b"AMQP_BINARY:"),
    ],
    ids=repr,
)
def test_forms(identifier: Any, ours: bytes) -> None:
    assert from_amqp(identifier) == ours
    assert to_amqp(ours) == identifier


def test_other_types_are_no_ids() -> None:
    for value in (True, 1.5, -1, 2**64, [1]):
        with pytest.raises(Malformed):
            from_amqp(value)  # type: ignore[arg-type]


@given(st.one_of(st.text(), st.builds(lambda raw: "ID:" + raw.hex(), st.binary())))
def test_amqp_groups_return_as_they_came(group: str) -> None:
    assert group_to_amqp(group_from_amqp(group)) == group


@given(st.binary())
def test_our_groups_return_as_they_went(group: bytes) -> None:
    ours = group_from_amqp(group_to_amqp(group))
    # Text that looks like the hexadecimal form of something else is the one exception.
    assert ours == group or group.startswith(b"ID:")
