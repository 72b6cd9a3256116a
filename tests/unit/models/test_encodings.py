# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.errors import MessageUnreadable
from entrepot.models.encodings import decimal_order, float_format, integer_order, struct_order
from folding import for_each


@pytest.mark.parametrize(
    ("encoding", "integers", "decimals", "floats", "order"),
    [
        (546, "little", "little", "ieee_little", "<"),
        (273, "big", "big", "ieee_big", ">"),
        (785, "big", "big", "s390", ">"),
        (0x122, "little", "little", "ieee_big", "<"),
        (0x212, "little", "big", "ieee_little", "<"),
        (0x221, "big", "little", "ieee_little", ">"),
    ],
)
def test_each_digit_of_an_encoding_tells_about_one_kind_of_number(
    encoding: int, integers: str, decimals: str, floats: str, order: str
) -> None:
    assert integer_order(encoding) == integers
    assert decimal_order(encoding) == decimals
    assert float_format(encoding) == floats
    assert struct_order(encoding) == order


@for_each("read", [integer_order, decimal_order, float_format, struct_order])
@for_each("encoding", [0, -1, 0xF0F0F])
def test_an_encoding_that_does_not_say_is_refused(read: object, encoding: int) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read(encoding)  # type: ignore[operator]
    assert caught.value.path == "Encoding"
