# SPDX-License-Identifier: Apache-2.0
"""Conditions on what a publication says, for subscribers to whom its topic says too little.

    compile_filter("xpath:/order[total > 100]")

The word before the colon is the language. A language knows how to read a
body; a publication is read at most once in each, however many subscriptions
ask. What cannot be read matches nothing. XPath and ESQL are always there, and
others bring their languages with `register`.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any, Protocol

from entrepot.errors import ContentFilterSyntaxError

FILTER_CHARACTERS_MAX = 10_240
"""As for selectors, with the language's name; a language may allow less."""

_EXCERPT_CHARACTERS = 60
_LOGGER = logging.getLogger("entrepot")


class Filter(Protocol):
    """A condition on bodies, ready to be asked."""

    @property
    def text(self) -> str:
        """All of it as it was given, with the name of the language."""

    @property
    def language(self) -> str: ...

    def matches(self, document: Any) -> bool:
        """Whether the condition holds for what `Language.parse` gave; never an error."""


class Language(Protocol):
    """A way to read bodies and to ask about them."""

    @property
    def name(self) -> str: ...

    def compile(self, expression: str) -> Filter:
        """The filter of what comes after the colon.

        Raises:
            ContentFilterSyntaxError: Its column counts from the beginning of the whole text.
        """

    def parse(self, body: bytes) -> Any | None:
        """A body as this language sees it; None when it cannot be read, and then no filter matches."""


_PLACES = {"xpath": "entrepot.engine.topics.xpath:XPathLanguage", "esql": "entrepot.esql.content_filter:EsqlLanguage"}
_languages: dict[str, Language] = {}


def register(language: Language) -> None:
    """From now on, `compile_filter` knows this language; one of the same name is replaced."""
    _languages[language.name] = language


def compile_filter(text: object) -> Filter:
    """A filter from its text, LANGUAGE:EXPRESSION.

    Raises:
        ContentFilterSyntaxError: There is no such language, or the expression is none of it.
    """
    if not isinstance(text, str):
        kind = type(text).__name__
        raise ContentFilterSyntaxError(f"<{kind}>", 1, f"a content filter is a str, not {kind}")
    if len(text) > FILTER_CHARACTERS_MAX:
        problem = f"a content filter has at most {FILTER_CHARACTERS_MAX} characters, this one has {len(text)}"
        raise ContentFilterSyntaxError(text[:_EXCERPT_CHARACTERS] + "...", FILTER_CHARACTERS_MAX + 1, problem)
    name, colon, expression = text.partition(":")
    language = _language(name) if colon else None
    if language is None:
        what = f"there is no language {name!r}" if colon else "the language and a colon are missing"
        known = ", ".join(sorted({*_PLACES, *_languages}))
        raise ContentFilterSyntaxError(text, 1, f"{what}; there is {known}")
    return language.compile(expression)


class Content:
    """The body of one publication, read at most once for each language."""

    __slots__ = ("_body", "_documents")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._documents: dict[str, Any | None] = {}

    def matches(self, filter_: Filter) -> bool:
        """Whether the body is what a filter asks for.

        A language that others have brought along may raise, whatever it promises. Then nothing matches: one
        subscriber's filter must not keep a publication from all others.
        """
        name = filter_.language
        try:
            if name not in self._documents:
                language = _language(name)
                assert language is not None
                self._documents[name] = None
                self._documents[name] = language.parse(self._body)
            document = self._documents[name]
            return document is not None and bool(filter_.matches(document))
        except (Exception, SystemExit, GeneratorExit):
            _LOGGER.exception("a content filter in the language %s failed, and matches nothing", name)
            return False


def _language(name: str) -> Language | None:
    # Imported late, so that a process that never sees a content filter loads neither lxml nor lark; and by name,
    # because ESQL lives above this room.
    if name not in _languages and name in _PLACES:
        module, _, attribute = _PLACES[name].partition(":")
        register(getattr(import_module(module), attribute)())
    return _languages.get(name)
