# SPDX-License-Identifier: Apache-2.0
"""The public edge: what matches, what is refused, and that nothing else ever happens."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import entrepot.selectors
from entrepot import limits
from entrepot.errors import SelectorSyntaxError
from entrepot.message import Message
from entrepot.selectors import NotCompiledYet, Selector, compile_selector, ready_selector
from folding import for_each

ORDER = Message(
    b"",
    properties={
        "region": "EU",
        "amount": 150,
        "price": 2.5,
        "urgent": True,
        "note": "it's\nhere",
        "token": b"EU",
        "größe": 3,
        "$cost_1": 4,
        "order.line": 5,
        "has space": 6,
        "NULL": 7,
    },
)


@for_each(
    "text",
    [
        "region = 'EU' AND amount > 100",
        "urgent",
        "NOT (region = 'US')",
        "not urgent or Region is null and region Is Not Null",
        "amount BETWEEN 100 AND 150",
        "amount NOT BETWEEN 151 AND 200",
        "region BETWEEN 'EA' AND 'EZ'",
        "region IN ('US', 'EU')",
        "region NOT IN ('US')",
        "amount IN (-1, 150.0)",
        "region LIKE 'E_'",
        "note LIKE '%s_here'",
        "note NOT LIKE 'x%'",
        "note = 'it''s\nhere'",
        "region < 'F' AND region >= 'EU'",
        "urgent = TRUE AND urgent <> FALSE AND urgent != false",
        "amount / 4 = 37 AND -amount / 4 = -37 AND amount / -4 = -37 AND amount / 4. = 37.5",
        "2 + 3 * 4 = 14 AND (2 + 3) * 4 = 20 AND 10 - 3 - 2 = 5 AND 100 / 10 / 5 = 2",
        "- - amount = + 150 AND -(amount) = -150",
        "0x96 = amount AND 150L = amount AND 1.5e2 = amount AND 150.f = amount AND 150d = amount AND .15E+3 = amount",
        "100 < amount AND 150 >= amount AND 'EU' = region",
        "größe = 3 AND $cost_1 = 4 AND order.line = 5",
        '"has space" = 6 AND "NULL" = 7 AND "region" = \'EU\'',
        "(amount > 100) = TRUE",
        "(missing = 1) IS NULL",
        "token IS NOT NULL AND token = token",
        "missing IS NULL OR missing = 1",
    ],
)
def test_condition_that_is_true_matches(text: str) -> None:
    assert compile_selector(text).matches(ORDER)


@for_each(
    "text",
    [
        "missing = 1",
        "NOT (missing = 1)",
        "missing",
        "NOT missing",
        "region",
        "NOT region",
        "amount",
        "Region = 'EU'",
        "amount / 0 = 1",
        "NOT (amount / 0 = 1)",
        "price / 0.0 > 0",
        "urgent + 1 = 2",
        "urgent = 1",
        "region = 150",
        "region <> 150",
        "NOT (region <> 150)",
        "amount > 'A'",
        "NOT (amount > 'A')",
        "urgent > region",
        "token = 'EU'",
        "token <> 'EU'",
        "token > token",
        "amount LIKE '1%'",
        "NOT (amount LIKE '1%')",
        "missing IN ('a')",
        "missing NOT IN ('a')",
        "missing BETWEEN 1 AND 2",
        "missing NOT BETWEEN 1 AND 2",
        "amount BETWEEN 100 AND missing",
    ],
)
def test_condition_that_is_false_or_unknown_does_not_match(text: str) -> None:
    assert not compile_selector(text).matches(ORDER)


def test_equality_of_unlike_kinds_is_false_so_its_negation_matches() -> None:
    assert compile_selector("NOT (region = 150) AND NOT (urgent = 1) AND region NOT IN (1, 2)").matches(ORDER)


def test_enumerations_and_other_subclasses_compare_as_what_they_are() -> None:
    class Name(str):
        pass

    message = Message(b"", properties={"name": Name("x"), "type": ORDER.type})
    assert compile_selector("name = 'x' AND name LIKE 'x' AND type = 8").matches(message)


def test_integer_too_large_for_a_float_is_unknown_and_no_error() -> None:
    message = Message(b"", properties={"huge": 10**400})
    assert not compile_selector("huge * 1.5 > 0 OR NOT (huge / 1.5 > 0)").matches(message)


@pytest.mark.parametrize("text", ["", "  \n "])
def test_blank_text_is_no_selector(text: str) -> None:
    with pytest.raises(SelectorSyntaxError, match="expected a condition"):
        compile_selector(text)


@pytest.mark.parametrize("thing", [None, 5, b"a = 1", ["a"], {}])
def test_argument_that_is_no_text_is_refused(thing: Any) -> None:
    with pytest.raises(SelectorSyntaxError, match="a selector is a str"):
        compile_selector(thing)


def test_text_longer_than_the_limit_is_refused_and_the_error_stays_short() -> None:
    longest = "a = 1".ljust(limits.SELECTOR_CHARACTERS_MAX)
    assert compile_selector(longest).matches(Message(b"", properties={"a": 1}))
    with pytest.raises(SelectorSyntaxError, match="at most 10240 characters") as refused:
        compile_selector(longest + " ")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("opening, closing", [("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("a = 1 OR (", ")")])
def test_nesting_beyond_the_limit_is_refused(opening: str, closing: str) -> None:
    for levels in (limits.SELECTOR_DEPTH_MAX + 1, 900):
        with pytest.raises(SelectorSyntaxError, match="nested more than 100 deep"):
            compile_selector(opening * levels + "a" + closing * levels)


def test_nesting_up_to_the_limit_is_evaluated() -> None:
    levels = limits.SELECTOR_DEPTH_MAX
    message = Message(b"", properties={"a": True})
    assert compile_selector("(" * levels + "a" + ")" * levels).matches(message)
    assert compile_selector("NOT " * levels + "a").matches(message)


def test_thousands_of_operands_in_a_row_are_no_nesting() -> None:
    message = Message(b"", properties={"a": 1, "b": True})
    assert compile_selector("a" + "+a" * 4000 + " = 4001").matches(message)
    assert compile_selector("a=2" + " OR a=2" * 1000 + " OR b").matches(message)
    assert compile_selector("b" + " AND b" * 1500).matches(message)


def test_compiled_selector_is_kept_and_given_again() -> None:
    assert compile_selector("a = 1") is compile_selector("a = 1")


def test_selector_travels_to_other_processes() -> None:
    selector = compile_selector("region = 'EU'")
    twin = pickle.loads(pickle.dumps(selector))
    assert isinstance(twin, Selector)
    assert twin.text == "region = 'EU'"
    assert twin.matches(ORDER)
    assert repr(twin) == "Selector(\"region = 'EU'\")"


def test_lark_is_loaded_only_when_a_selector_is_compiled() -> None:
    program = (
        "import sys; from entrepot.selectors import compile_selector; assert 'lark' not in sys.modules;"
        "compile_selector('a = 1'); assert 'lark' in sys.modules"
    )
    source = Path(entrepot.selectors.__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": str(source)})


FRAGMENTS_OF_SELECTORS = """
    a b.c $x _ "q" 'text' '' ' " 1 2.5 .5 7. 0x1F 0x 1e 1e3 12ab ( ) , + - * / = <> != < <= > >= ! & .
    AND or NOT between IN like ESCAPE is NULL true FALSE '!' '%'
"""
FRAGMENTS = st.sampled_from(FRAGMENTS_OF_SELECTORS.split())
ANY_TEXT = st.text(st.characters(exclude_categories=()))
SELECTOR_LIKE = st.lists(FRAGMENTS | ANY_TEXT, max_size=25).map(" ".join)


@settings(max_examples=500)
@given(ANY_TEXT | SELECTOR_LIKE | st.lists(FRAGMENTS, max_size=12).map("".join))
@example("\ud800")
@example("'\x00")
@example("a = " + "9" * 9000)
@example("a IN (1)))")
def test_any_text_is_a_selector_or_a_syntax_error_and_nothing_else(text: str) -> None:
    try:
        selector = compile_selector(text)
    except SelectorSyntaxError as error:
        assert 1 <= error.column <= len(text) + 1
        assert error.problem
        assert "Token(" not in error.problem
        assert len(error.selector) == len(text)
    else:
        assert selector.matches(ORDER) in (True, False)


def test_no_text_makes_like_take_long() -> None:
    # Twenty such patterns over 900 KB took 2.5 s.
    long = Message(b"", properties={"p": "a" * 900_000, "q": "a" * 900_000})
    for condition in ("p LIKE '%a_b%'", "p LIKE '%b'", "p = q", "p <> q"):
        assert not compile_selector(condition).matches(long)
        assert not compile_selector(f"NOT ({condition})").matches(long)
        assert compile_selector(f"({condition}) OR p IS NOT NULL").matches(long)
    with pytest.raises(SelectorSyntaxError, match="more than 16 patterns"):
        compile_selector(" OR ".join(["p LIKE '%a_b%'"] * 17))
    assert compile_selector(" OR ".join(["p LIKE '%a_b%'"] * 16 + ["p LIKE '%ab%'"] * 20)).matches(long) is False


def test_steps_count_conditions_and_the_characters_that_patterns_look_at() -> None:
    message = Message(b"", properties={"p": "a" * 5_000})
    assert compile_selector("p = 1").steps_for(message) < compile_selector("p = 1 OR p = 2").steps_for(message) < 20
    assert compile_selector("p LIKE '%ab%'").steps_for(message) < 20
    assert 10_000 < compile_selector("p LIKE '%a_b%' OR p LIKE '%c_d%'").steps_for(message) < 10_100


def test_products_do_not_grow_without_end() -> None:
    message = Message(b"", properties={"n": 2**62})
    assert not compile_selector("n * " * 2_500 + "n <> 0").matches(message)
    assert compile_selector("n * n * n > 0").matches(message)


def test_a_loop_does_not_read_long_texts_itself() -> None:
    for text in ("a = 1 OR " * 100 + "AND", "a = 2 OR " * 100 + "TRUE"):
        with pytest.raises(NotCompiledYet):
            ready_selector(text)
        with suppress(SelectorSyntaxError):
            compile_selector(text)
    assert ready_selector(text).text == text
    for wrong in ("a = 1 OR " * 100 + "AND", "b" * 100_000):
        with pytest.raises(SelectorSyntaxError):
            ready_selector(wrong)
