# SPDX-License-Identifier: Apache-2.0
"""Each mistake gets a column and a sentence that says what would be right."""

from __future__ import annotations

import pytest

from entrepot.errors import SelectorSyntaxError
from entrepot.selectors import compile_selector
from folding import for_each


@for_each(
    "text, column, problem",
    [
        ("a =", 4, "expected a value after '=', and the selector ends here"),
        ("a = = 3", 5, "expected a value after '='; a single '=' tests for equality"),
        ("a = NULL", 5, "expected a value after '='; to test for null, write IS NULL or IS NOT NULL"),
        ("a > and", 5, "expected a value after '>', and AND is a keyword (a property of that name is written \"and\")"),
        ("a = 1 AND", 10, "expected a condition after AND, and the selector ends here"),
        ("OR a", 1, "expected a condition, such as amount > 100, and OR is a keyword"),
        ("(a = 1", 7, "expected ')' after '1', for the '(' at column 1"),
        ("a = 1)", 6, "this ')' has no '(' before it"),
        ("a IS 5", 6, "expected NULL or NOT NULL after IS, found '5'"),
        ("a IS NOT", 9, "expected NULL after NOT"),
        ("a NOT = 1", 7, "expected BETWEEN, IN or LIKE after NOT, found '='"),
        ("a IN 5", 6, "expected a list of values in brackets after IN"),
        ("a IN (1", 8, "expected ',' or ')' after '1'"),
        ("a BETWEEN 1 OR 2", 13, "expected AND and the upper bound of BETWEEN after '1', found 'OR'"),
        ("a BETWEEN 1 AND", 16, "expected a value after AND"),
        ("a b", 3, "expected an operator such as '=', AND, OR or the end after 'a', found 'b'"),
        ("a > 1 > 2", 7, "expected AND, OR or the end after '1', found '>'"),
        ("a = 'x", 5, "the text that begins here has no closing quote"),
        ("a = 'it's or b='x'", 9, "expected AND, OR or the end after \"'it'\"; a quote inside a text is written twice"),
        ('"a = 1', 1, "the name that begins here is empty or has no closing double quote"),
        ('"" = 1', 1, "the name that begins here is empty"),
        ("a = 12ab", 5, "'12ab' is not a number"),
        ("a = 1.2.3", 5, "'1.2.3' is not a number"),
        ("a && b", 3, "unexpected '&'; write AND"),
        ("a || b", 3, "unexpected '|'; write OR"),
        ("!a", 1, "unexpected '!'; write NOT"),
        ("a = #", 5, "unexpected character '#'"),
        ("a =\n\n 5 x", 9, "expected AND, OR or the end after '5', found 'x'"),
    ],
)
def test_mistake_of_syntax_is_explained(text: str, column: int, problem: str) -> None:
    with pytest.raises(SelectorSyntaxError) as refused:
        compile_selector(text)
    assert refused.value.problem.startswith(problem)
    assert refused.value.column == column


def test_error_shows_the_place_with_a_caret_even_in_a_text_of_many_lines() -> None:
    with pytest.raises(SelectorSyntaxError) as refused:
        compile_selector("a =\n\t5 x")
    assert str(refused.value).endswith("\n  a =  5 x\n         ^")
    assert refused.value.__cause__ is None


def test_long_token_is_shortened_in_the_explanation() -> None:
    with pytest.raises(SelectorSyntaxError) as refused:
        compile_selector("a = 1 " + "x" * 5000)
    assert len(refused.value.problem) < 120
