# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect

import pytest

from folding import for_each


def test_every_case_runs_and_all_failures_are_reported_together() -> None:
    ran = []

    @for_each(("number", "square"), [(1, 1), (2, 5), pytest.param(3, 9), (4, 17)], ids=str)
    def check(number: int, square: int) -> None:
        ran.append(number)
        assert number**2 == square, f"{number}² is not {square}"

    with pytest.raises(ExceptionGroup, match="2 of 4 cases failed") as caught:
        check()
    assert ran == [1, 2, 3, 4]
    assert [str(each).splitlines()[0] for each in caught.value.exceptions] == ["2² is not 5", "4² is not 17"]
    assert [each.__notes__ for each in caught.value.exceptions] == [["in the case [2-5]"], ["in the case [4-17]"]]


def test_an_exception_that_should_have_come_is_a_failure_of_its_case() -> None:
    @for_each("text", ["1", "x"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="x"):
            int(text)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 cases failed"):
        check()


def test_other_parameters_are_fixtures() -> None:
    @for_each("a", [1, 2])
    @for_each("b", [3, 4])
    def check(connection: object, a: int, b: int) -> None:
        assert connection == "fixture"

    assert list(inspect.signature(check).parameters) == ["connection"]
    check(connection="fixture")


def test_a_case_has_no_marks() -> None:
    with pytest.raises(AssertionError, match="marks"):
        for_each("a", [pytest.param(1, marks=pytest.mark.torture)])
