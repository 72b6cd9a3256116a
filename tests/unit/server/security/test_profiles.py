# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.server.security.profiles import matches_name, matches_text, rank
from folding import for_each


@for_each(
    ("profile", "fitting", "others"),
    [
        # The examples of MQ's own page.
        ("ABC.?EF", ["ABC.DEF", "ABC.CEF"], ["ABC.EF", "ABC.DDEF", "ABC..EF.X"]),
        ("ABC.*.JKL", ["ABC.DEF.JKL", "ABC.GHI.JKL"], ["ABC.JKL", "ABC.A.B.JKL"]),
        ("ABC.DE*.JKL", ["ABC.DE.JKL", "ABC.DEF.JKL", "ABC.DEGH.JKL"], ["ABC.D.JKL", "ABC.DE.F.JKL"]),
        ("**", ["A", "A.B", "A.B.C"], []),
        ("ABC.**", ["ABC", "ABC.D", "ABC.D.E"], ["ABCD", "X.ABC"]),
        ("**.ABC", ["ABC", "D.ABC", "D.E.ABC"], ["ABC.D", "XABC"]),
        ("A.**.Z", ["A.Z", "A.B.Z", "A.B.C.Z"], ["A.B", "AZ", "A.ZZ"]),
        ("*", ["A", "AB"], ["A.B"]),
        ("A*", ["A", "AB"], ["A.B", "BA"]),
        ("ORDERS", ["ORDERS"], ["orders", "ORDERS.X", "ORDER", ""]),
        ("", [], ["", "A"]),
    ],
)
def test_profile_fits(profile: str, fitting: list[str], others: list[str]) -> None:
    assert [name for name in fitting if not matches_name(profile, name)] == []
    assert [name for name in others if matches_name(profile, name)] == []


@pytest.mark.parametrize(
    "from_most_to_least_specific",
    [
        ["AB.CD", "AB.C?", "AB.C*", "AB.*", "AB.**", "A*.CD", "*.CD", "**.CD", "**"],
        ["AB.CD", "AB.?D", "AB.*D", "AB.*", "?B.CD", "*B.CD", "*"],
        ["A.**.Z", "A.**"],
        ["A.*.Z", "A.*.*", "A.**"],
        ["AB", "AB.**", "AB?", "AB*", "A*B", "A*B*", "A*", "**"],
    ],
)
def test_most_specific_profile_is_first(from_most_to_least_specific: list[str]) -> None:
    backwards = from_most_to_least_specific[::-1]
    assert sorted(backwards, key=rank) == from_most_to_least_specific


@given(st.text("ab*?", max_size=8), st.text("ab.", max_size=8))
def test_text_matches_as_a_regular_expression_would(pattern: str, text: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(character, character) for character in pattern)
    assert matches_text(pattern, text) == bool(re.fullmatch(expression, text, re.DOTALL))


@given(
    st.lists(st.sampled_from(["**", "*", "a", "a*", "?", "b"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=5),
)
def test_names_match_as_a_regular_expression_would(profile: list[str], name: list[str]) -> None:
    parts = [
        r"(?:[^.]*\.)*" if part == "**" else part.replace("?", "[^.]").replace("*", "[^.]*") + r"\." for part in profile
    ]
    expected = re.fullmatch("".join(parts), ".".join(name) + ".")
    assert matches_name(".".join(profile), ".".join(name)) == bool(expected)


def test_no_pattern_takes_long() -> None:
    assert not matches_text("*a" * 2000 + "b", "a" * 20_000)
    assert not matches_name(".".join(["**", "a"] * 200) + ".b", ".".join("a" * 2000))
