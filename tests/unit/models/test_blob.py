# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from entrepot.errors.flows import MessageUnwritable
from entrepot.models.blob import BLOB
from entrepot.models.domains import find_domain
from entrepot.models.tree import Folder

BODY = b"\x00\xffanything"


def test_the_body_is_one_value() -> None:
    assert find_domain("BLOB") is BLOB
    read = Folder(BLOB, BODY)
    (child,) = read.children
    assert (child.key, child.value) == ("BLOB", BODY)
    assert child.value is BODY
    assert read.render() is BODY


def test_an_empty_body_is_an_empty_value() -> None:
    assert Folder(BLOB, b"").get("BLOB") == b""


def test_a_changed_value_is_the_body() -> None:
    read = Folder(BLOB, BODY)
    read.children[0].set_value(b"new")
    assert read.render() == b"new"


def test_a_body_can_be_made() -> None:
    new = Folder(BLOB)
    new.add("UnknownParserName", "NONE")
    new.add("BLOB", b"made")
    assert new.render() == b"made"


def test_no_value_is_no_body() -> None:
    assert Folder(BLOB).render() == b""
    new = Folder(BLOB)
    new.add("BLOB")
    assert new.render() == b""


@pytest.mark.parametrize("value", ["text", 5, True])
def test_another_type_is_refused(value: Any) -> None:
    new = Folder(BLOB)
    new.add("BLOB", value)
    with pytest.raises(MessageUnwritable, match="cast it") as caught:
        new.render()
    assert caught.value.path == "BLOB.BLOB"


def test_two_values_are_refused() -> None:
    new = Folder(BLOB)
    new.add("BLOB", b"1")
    new.add("BLOB", b"2")
    with pytest.raises(MessageUnwritable, match="second"):
        new.render()


def test_a_peek_needs_no_tree() -> None:
    read = Folder(BLOB, BODY)
    assert read.peek(("BLOB",)) == (True, BODY)
    assert read.peek(("other",)) == (False, None)
    assert read._children is None
