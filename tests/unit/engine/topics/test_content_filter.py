# SPDX-License-Identifier: Apache-2.0
"""Languages for content filters, and that a body is read once in each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.engine.topics import Content, compile_filter, content_filter, register
from entrepot.errors import ContentFilterSyntaxError


class StartsWith:
    """A language of which every text is a beginning, in upper case; it counts what it reads."""

    name = "starts"

    def __init__(self) -> None:
        self.bodies_read = 0

    def compile(self, expression: str) -> Beginning:
        if not expression:
            raise ContentFilterSyntaxError("starts:", 8, "the beginning is missing")
        return Beginning(expression)

    def parse(self, body: bytes) -> str | None:
        self.bodies_read += 1
        return body.decode().upper() if body.isascii() else None


class Beginning:
    language = "starts"

    def __init__(self, expression: str) -> None:
        self.text = f"starts:{expression}"
        self.expression = expression

    def matches(self, document: Any) -> bool:
        return bool(document.startswith(self.expression))


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartsWith]:
    monkeypatch.setattr(content_filter, "_languages", {})
    language = StartsWith()
    register(language)
    yield language


def test_a_body_is_read_once_for_each_language(starts: StartsWith) -> None:
    content = Content(b"<order/>")
    assert content.matches(compile_filter("starts:<O"))
    assert not content.matches(compile_filter("starts:<P"))
    assert content.matches(compile_filter("xpath:/order"))
    assert starts.bodies_read == 1


def test_a_body_that_cannot_be_read_matches_nothing_and_is_not_read_again(starts: StartsWith) -> None:
    content = Content(b"\xff")
    assert not content.matches(compile_filter("starts:a"))
    assert not content.matches(compile_filter("starts:b"))
    assert starts.bodies_read == 1


def test_what_comes_after_the_first_colon_is_for_the_language(starts: StartsWith) -> None:
    filter_ = compile_filter("starts:a:b")
    assert (filter_.text, filter_.language) == ("starts:a:b", "starts")
    assert Content(b"a:b").matches(compile_filter("starts:A:B"))
    with pytest.raises(ContentFilterSyntaxError, match="beginning is missing"):
        compile_filter("starts:")


@pytest.mark.parametrize(
    "text, column, words",
    [
        (None, 1, "NoneType"),
        (b"xpath:/a", 1, "bytes"),
        ("", 1, "missing"),
        ("/order", 1, "missing; there is esql, starts, xpath"),
        ("sql:a = 1", 1, "no language 'sql'; there is esql, starts, xpath"),
        ("XPath:/a", 1, "no language 'XPath'"),
        (":", 1, "no language ''"),
        ("starts:" + "x" * 10_240, 10_241, "at most 10240"),
    ],
)
def test_a_filter_that_no_language_gets_is_refused(starts: StartsWith, text: object, column: int, words: str) -> None:
    with pytest.raises(ContentFilterSyntaxError) as caught:
        compile_filter(text)
    assert caught.value.column == column
    assert words in caught.value.problem
    assert len(caught.value.expression) < 100


class _Failing:
    """A language of somebody else's, which keeps none of its promises."""

    name = language = "failing"
    text = "failing:"

    def __init__(self, error: BaseException, *, when: str) -> None:
        self._error = error
        self._when = when

    def compile(self, expression: str) -> Any:
        return self

    def parse(self, body: bytes) -> Any:
        if self._when == "parse":
            raise self._error
        return body

    def matches(self, document: Any) -> bool:
        raise self._error


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), SystemExit(1), GeneratorExit()])
def test_a_filter_that_raises_matches_nothing_and_the_publication_goes_on(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    for when in ("parse", "matches"):
        failing = _Failing(error, when=when)
        monkeypatch.setitem(content_filter._languages, "failing", failing)
        content = Content(b"<order/>")
        assert not content.matches(compile_filter("failing:"))
        assert content.matches(compile_filter("xpath:/order"))
