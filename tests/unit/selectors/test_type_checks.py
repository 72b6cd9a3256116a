# SPDX-License-Identifier: Apache-2.0
"""Mistakes of kind that show without a message."""

from __future__ import annotations

import pytest

from entrepot.errors import SelectorSyntaxError
from entrepot.selectors import compile_selector
from folding import for_each


@for_each(
    "text, column, problem",
    [
        ("5", 1, "a selector is a condition, such as amount > 100, and this is a number"),
        ("'x'", 1, "a selector is a condition, such as amount > 100, and this is text"),
        ("a + b", 1, "a selector is a condition, such as amount > 100, and this is a number"),
        ("(('x'))", 1, "a selector is a condition, such as amount > 100, and this is text"),
        ("'a' + 1 = 2", 1, "'+' calculates with numbers, and this is text"),
        ("2 * TRUE = 2", 5, "'*' calculates with numbers, and this is a boolean"),
        ("1 - (a = 1) = 0", 5, "'-' calculates with numbers, and this is a condition"),
        ("- 'x' = 1", 3, "'-' calculates with numbers, and this is text"),
        ("NOT 5", 5, "what NOT negates is a condition, such as amount > 100, and this is a number"),
        ("a AND 'x'", 7, "each side of AND is a condition, such as amount > 100, and this is text"),
        ("1 OR a", 1, "each side of OR is a condition, such as amount > 100, and this is a number"),
        ("'a' = 1", 7, "'=' compares like with like, and this is a number, not text"),
        ("a + 1 <> 'x'", 10, "'<>' compares like with like, and this is text, not a number"),
        ("a < TRUE", 5, "'<' orders numbers or text, and this is a boolean"),
        ("a BETWEEN 1 AND 'x'", 17, "BETWEEN compares like with like, and this is text, not a number"),
        ("TRUE BETWEEN a AND b", 1, "BETWEEN orders numbers or text, and this is a boolean"),
        ("a IN (1, 'x')", 10, "IN compares like with like, and this is text, not a number"),
        ("a IN (b)", 7, "a list holds text or numbers as such, and this is a property"),
        ("a IN (TRUE)", 7, "a list holds text or numbers as such, and this is a boolean"),
        ("5 IN ('x')", 1, "IN compares like with like, and this is a number, not text"),
        ("5 LIKE 'x'", 1, "LIKE looks at text, and this is a number"),
        ("a LIKE 5", 8, "the pattern of LIKE is text in single quotes, and this is a number"),
        ("a NOT LIKE b", 12, "the pattern of LIKE is text in single quotes, and this is a property"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "the escape character is one character, and 'ab' has 2"),
        ("a LIKE 'x' ESCAPE ''", 19, "the escape character is one character, and '' has 0"),
        ("a LIKE 'x' ESCAPE 1", 19, "the escape character is text in single quotes, and this is a number"),
        ("a LIKE '''x!y' ESCAPE '!'", 12, "in a pattern, '!' stands only before %, _ or another '!'"),
    ],
)
def test_mistake_of_kind_is_explained(text: str, column: int, problem: str) -> None:
    with pytest.raises(SelectorSyntaxError) as refused:
        compile_selector(text)
    assert (refused.value.problem, refused.value.column) == (problem, column)
