# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of models, refused when they could run for ever.

`(a+)+b` tries exponentially many ways to read a long row of a. The danger is a
repetition inside a repetition whose end may touch its own next beginning: both
can match the same character, so the engine has to try every way to cut. Such
patterns are refused when the model is compiled; what is left is matched
against at most `PATTERN_SPAN` characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _constants as ops
from re import _parser as parser
from typing import Any

PATTERN_SPAN = 32_768
"""Characters that a data pattern may look at; longer data need a delimiter or a length."""

_SAMPLE = (*map(chr, range(256)), "€", "中")
_ALL = frozenset(_SAMPLE)
_MANY = 10
"""A repetition that may happen more often than this is looked at."""


@lru_cache(maxsize=4096)
def compile_safe(pattern: str) -> re.Pattern[str]:
    """The compiled expression.

    Raises:
        ValueError: It is no regular expression, or one that could run for ever.
    """
    try:
        tree = parser.parse(pattern)
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    _check(tree, pattern)
    return compiled


def _check(tree: Iterable[Any], pattern: str) -> None:
    for operation, argument in tree:
        if operation is ops.MAX_REPEAT or operation is ops.MIN_REPEAT:
            _least, most, body = argument
            if most > _MANY and _ambiguous(list(body)):
                raise ValueError(f"{pattern!r} repeats a repetition in more ways than one and could run for ever")
        for inner in _inner(operation, argument):
            _check(inner, pattern)


def _inner(operation: Any, argument: Any) -> list[Any]:
    if operation in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        return [argument[2]]
    if operation is ops.SUBPATTERN:
        return [argument[3]]
    if operation is ops.ATOMIC_GROUP:
        return [argument]
    if operation is ops.BRANCH:
        return list(argument[1])
    if operation in (ops.ASSERT, ops.ASSERT_NOT):
        return [argument[1]]
    if operation is ops.GROUPREF_EXISTS:
        return [side for side in argument[1:] if side is not None]
    return []


def _ambiguous(body: list[Any]) -> bool:
    """Whether a repetition at the end of the body can go on where the next round of the body begins."""
    first = _first(body)
    return any(bool(characters & first) for characters in _open_ends(body))


def _open_ends(body: list[Any]) -> list[frozenset[str]]:
    """The characters of repetitions that the body may end with."""
    ends: list[frozenset[str]] = []
    for operation, argument in reversed(body):
        if operation in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, inner = argument
            if most > least and most > 1:
                ends.append(_characters(inner))
            ends.extend(_open_ends(list(inner)))
        elif operation is not ops.ATOMIC_GROUP:
            for inner in _inner(operation, argument):
                ends.extend(_open_ends(list(inner)))
        if not _nullable(operation, argument):
            break
    return ends


def _nullable(operation: Any, argument: Any) -> bool:
    if operation in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        return argument[0] == 0 or _all_nullable(argument[2])
    if operation is ops.SUBPATTERN:
        return _all_nullable(argument[3])
    if operation is ops.ATOMIC_GROUP:
        return _all_nullable(argument)
    if operation is ops.BRANCH:
        return any(_all_nullable(branch) for branch in argument[1])
    return operation in (ops.AT, ops.ASSERT, ops.ASSERT_NOT, ops.GROUPREF, ops.GROUPREF_EXISTS)


def _all_nullable(tree: Iterable[Any]) -> bool:
    return all(_nullable(operation, argument) for operation, argument in tree)


def _first(tree: Iterable[Any]) -> frozenset[str]:
    """The characters that a sequence may begin with."""
    characters: frozenset[str] = frozenset()
    for operation, argument in tree:
        characters |= _of_one(operation, argument, _first)
        if not _nullable(operation, argument):
            break
    return characters


def _characters(tree: Iterable[Any]) -> frozenset[str]:
    """All characters that a sequence may have."""
    characters: frozenset[str] = frozenset()
    for operation, argument in tree:
        characters |= _of_one(operation, argument, _characters)
    return characters


def _of_one(operation: Any, argument: Any, of_all: Callable[[Iterable[Any]], frozenset[str]]) -> frozenset[str]:
    if operation is ops.LITERAL:
        return frozenset({chr(argument)})
    if operation is ops.NOT_LITERAL:
        return _ALL - {chr(argument)}
    if operation is ops.ANY:
        return _ALL
    if operation is ops.IN:
        return _of_set(argument)
    if operation is ops.GROUPREF:
        return _ALL
    characters: frozenset[str] = frozenset()
    for inner in _inner(operation, argument):
        characters |= of_all(inner)
    return characters


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    ops.CATEGORY_DIGIT: str.isdigit,
    ops.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    ops.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    ops.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}


def _of_set(items: Iterable[Any]) -> frozenset[str]:
    characters: set[str] = set()
    negated = False
    for operation, argument in items:
        if operation is ops.NEGATE:
            negated = True
        elif operation is ops.LITERAL:
            characters.add(chr(argument))
        elif operation is ops.RANGE:
            low, high = argument
            characters.update(c for c in _SAMPLE if low <= ord(c) <= high)
            characters.update((chr(low), chr(high)))
        else:
            characters.update(filter(_CATEGORIES[argument], _SAMPLE))
    return _ALL - characters if negated else frozenset(characters)
