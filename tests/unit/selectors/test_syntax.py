# SPDX-License-Identifier: Apache-2.0
"""What the text of a selector becomes."""

from __future__ import annotations

import pytest

from entrepot.selectors.expressions import And, Comparison, Identifier, Or, SelectorLiteral
from entrepot.selectors.mistakes import SelectorMistake
from entrepot.selectors.syntax import parse
from folding import for_each


@for_each(
    "text, value",
    [
        ("0", 0),
        ("017", 17),
        ("42L", 42),
        ("42l", 42),
        ("0x1F", 31),
        ("0XffL", 255),
        ("0x1d", 29),
        ("-9223372036854775808", -(2**63)),
        ("7.", 7.0),
        (".5", 0.5),
        ("-95.7", -95.7),
        ("57.9E2", 5790.0),
        ("1e-3", 0.001),
        ("7f", 7.0),
        ("7.5D", 7.5),
        ("'it''s'", "it's"),
        ("''", ""),
        ("''''", "'"),
        ("TRUE", True),
        ("fAlSe", False),
    ],
)
def test_literal_has_the_value_and_type_of_its_text(text: str, value: str | int | float | bool) -> None:
    expression = parse(f"a = {text}")
    assert isinstance(expression, Comparison)
    assert isinstance(expression.right, SelectorLiteral)
    assert expression.right.value == value
    assert type(expression.right.value) is type(value)


@pytest.mark.parametrize(
    "number", ["9223372036854775809", "0xFFFFFFFFFFFFFFFFFF", "9" * 9000, "1e999", "9" * 400 + "."]
)
def test_number_out_of_range_is_a_mistake(number: str) -> None:
    with pytest.raises(SelectorMistake, match="too large"):
        parse(f"a = {number}")


@for_each(
    "text, name",
    [
        ("a", "a"),
        ("$_9", "$_9"),
        ("Straße", "Straße"),
        ("注文", "注文"),
        ("a.b.$c", "a.b.$c"),
        ("in.and.or", "in.and.or"),
        ("nothing", "nothing"),
        ("Null_", "Null_"),
        ('"not"', "not"),
        ('"a ""b"" c"', 'a "b" c'),
    ],
)
def test_identifier_has_the_name_of_its_text(text: str, name: str) -> None:
    expression = parse(text)
    assert isinstance(expression, Identifier)
    assert expression.name == name


@for_each("keyword", ["AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL"])
def test_keyword_is_no_identifier_in_any_case(keyword: str) -> None:
    for spelling in (keyword, keyword.lower(), keyword.title()):
        with pytest.raises(SelectorMistake):
            parse(f"{spelling} = 1")


def test_and_binds_stronger_than_or_and_both_are_flat() -> None:
    expression = parse("a OR b AND c AND d OR e")
    assert isinstance(expression, Or)
    assert [type(operand) for operand in expression.operands] == [Identifier, And, Identifier]
    assert expression.depth == 2
