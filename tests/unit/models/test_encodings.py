# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.errors import MessageUnreadable
from entrepot.models.encodings import struct_order
from folding import for_each


@pytest.mark.parametrize(
    ("encoding", "order"), [(546, "<"), (273, ">"), (785, ">"), (0x122, "<"), (0x212, "<"), (0x221, ">")]
)
def test_the_last_digit_of_an_encoding_tells_about_integers(encoding: int, order: str) -> None:
    assert struct_order(encoding) == order


@for_each("encoding", [0, -1, 0xF0F0F])
def test_an_encoding_that_does_not_say_is_refused(encoding: int) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        struct_order(encoding)
    assert caught.value.path == "Encoding"
