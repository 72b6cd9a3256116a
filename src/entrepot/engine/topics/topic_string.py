# SPDX-License-Identifier: Apache-2.0
"""Topics such as "price/metal/gold", and the patterns that subscriptions are made with.

Levels are separated by `/` and may be empty: "/a", "a" and "a/" are three
topics. A pattern has one of MQ's two schemes of wildcards. In scheme TOPIC a
whole level `+` is any one level and a whole level `#` any number of them, also
none. In scheme CHAR `*` is any characters, `/` among them, `?` any one, and
`%` takes the meaning from the `*`, `?` or `%` behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal

import msgspec

from entrepot.engine.topics.level_steps import ANY, ONE, first_positions, is_at_end, levels_of, next_positions
from entrepot.errors import InvalidTopic

TOPIC_CHARACTERS_MAX = 10_240
"""MQ's MQ_TOPIC_STR_LENGTH."""
TOPIC_LEVELS_MAX = 100

Scheme = Literal["TOPIC", "CHAR"]

_EXCERPT_CHARACTERS = 60
# Surrogates without their partner are refused too: they cannot be sent as UTF-8.
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_Problem = tuple[int, str]


class TopicPattern(msgspec.Struct, frozen=True):
    """What a subscription is made to; `parse_pattern` makes it."""

    text: str
    scheme: Scheme
    levels: tuple[str, ...]
    """All levels in scheme TOPIC; in scheme CHAR the whole ones before the first wildcard, escapes resolved."""
    literal: str
    """The characters before the first wildcard, escapes resolved."""
    expression: re.Pattern[str] | None
    """What comes after `literal`, in scheme CHAR with wildcards."""
    is_wild: bool
    first_wild_level: int
    """How many whole levels come before the first wildcard."""

    def __hash__(self) -> int:
        return hash((self.text, self.scheme))

    def matches(self, topic: str) -> bool:
        if not self.is_wild:
            return topic == self.literal
        if self.expression is not None:
            return topic.startswith(self.literal) and self.expression.fullmatch(topic, len(self.literal)) is not None
        positions = first_positions(self.levels)
        for level in levels_of(topic):
            positions = next_positions(self.levels, positions, level)
            if not positions:
                return False
        return is_at_end(self.levels, positions)


def require_topic(topic: object) -> str:
    """A topic that one can publish to.

    Raises:
        InvalidTopic: It is no text, empty, too long, too deep, or has a control character or
            a level that is a wildcard; with the column of the first thing that is wrong.
    """
    text = _require_text(topic)
    _refuse_first(text, [*_length_problems(text), *_character_problems(text), *_wildcard_problems(text)])
    return text


def parse_pattern(text: object, scheme: str = "TOPIC") -> TopicPattern:
    """A pattern from its text; `a/#` matches `a` too, and `#` may stand anywhere as a level.

    Raises:
        InvalidTopic: As for `require_topic`, but that wildcards are welcome. In scheme CHAR
            also a `%` that stands before none of `*`, `?` and `%`.
    """
    pattern = _require_text(text)
    if scheme == "TOPIC":
        _refuse_first(pattern, [*_length_problems(pattern), *_character_problems(pattern)])
        return _level_pattern(pattern)
    if scheme == "CHAR":
        _refuse_first(pattern, [*_length_problems(pattern), *_character_problems(pattern), *_escape_problems(pattern)])
        return _character_pattern(pattern)
    raise InvalidTopic(_excerpt(pattern), 1, f"wildcards have scheme TOPIC or CHAR, not {scheme!r}")


def from_style(text: str, style: str) -> str:
    """The pattern of another broker in our notation, scheme TOPIC.

    Style `mq` is ours already. `jms` is that of SonicMQ and ActiveMQ: levels by
    `.`, `*` for one level, `#` or `>` for any number. `tibco` has `.` and `*`
    too, and at the end `>` for one level or more.

    Raises:
        InvalidTopic: There is no such style; or a `/`, or a level that is plain there and would be
            a wildcard here, or a `>` of `tibco` that is not at the end.
    """
    if style == "mq":
        return text
    if style not in _WILDCARDS:
        raise InvalidTopic(_excerpt(text), 1, f"topics have style mq, jms or tibco, not {style!r}")
    _refuse_first(text, list(_style_problems(text, style)))
    wildcards = _WILDCARDS[style]
    return "/".join(wildcards.get(level, level) for level in text.split("."))


_WILDCARDS = {
    "jms": {"*": ONE, "#": ANY, ">": ANY},
    "tibco": {"*": ONE, ">": f"{ONE}/{ANY}"},
}


def _level_pattern(text: str) -> TopicPattern:
    levels = levels_of(text)
    first_wild = next((index for index, level in enumerate(levels) if level in (ONE, ANY)), len(levels))
    is_wild = first_wild < len(levels)
    literal = "".join(f"{level}/" for level in levels[:first_wild]) if is_wild else text
    return TopicPattern(text, "TOPIC", levels, literal, None, is_wild, first_wild)


def _character_pattern(text: str) -> TopicPattern:
    pieces = _pieces(text)
    first = pieces[0]
    literal = first[: first.index(None)] if None in first else first
    literal_text = "".join(character for character in literal if character is not None)
    is_wild = len(pieces) > 1 or None in first
    levels = levels_of(literal_text)
    if is_wild:
        # The level that the wildcard stands in is no whole one.
        levels = levels[:-1]
    expression = _expression([first[len(literal) :], *pieces[1:]]) if is_wild else None
    return TopicPattern(text, "CHAR", levels, literal_text, expression, is_wild, len(levels))


def _pieces(text: str) -> list[list[str | None]]:
    """What is between the `*` of a pattern, with None for `?`."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(text)
    for character in characters:
        if character == "*":
            pieces.append([])
        elif character == "?":
            pieces[-1].append(None)
        else:
            pieces[-1].append(next(characters) if character == "%" else character)
    return pieces


def _expression(pieces: list[list[str | None]]) -> re.Pattern[str]:
    first, *rest = ["".join("." if c is None else re.escape(c) for c in piece) for piece in pieces]
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    # Each piece is taken where it first occurs and for good, which (?>) says: a
    # later place could never help, and trying them all would hang us on '*a*a*a*b'.
    found = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _require_text(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidTopic(f"<{type(text).__name__}>", 1, f"a topic is a str, not {type(text).__name__}")
    if not text:
        raise InvalidTopic(text, 1, "a topic has at least one character")
    return text


def _length_problems(text: str) -> Iterator[_Problem]:
    if len(text) > TOPIC_CHARACTERS_MAX:
        problem = f"a topic has at most {TOPIC_CHARACTERS_MAX} characters, this one has {len(text)}"
        yield TOPIC_CHARACTERS_MAX + 1, problem
    levels_count = text.count("/") + 1
    if levels_count > TOPIC_LEVELS_MAX:
        column = len("/".join(text.split("/", TOPIC_LEVELS_MAX)[:-1])) + 2
        yield column, f"a topic has at most {TOPIC_LEVELS_MAX} levels, this one has {levels_count}"


def _character_problems(text: str) -> Iterator[_Problem]:
    if found := _UNUSABLE.search(text):
        yield found.start() + 1, f"a topic cannot have the character U+{ord(found[0]):04X}"


def _wildcard_problems(text: str) -> Iterator[_Problem]:
    for column, level in _columns(text, "/"):
        if level in (ONE, ANY):
            yield column, f"{level} alone as a level is a wildcard, and nobody can publish to it"
            return


def _escape_problems(text: str) -> Iterator[_Problem]:
    for escape in re.finditer("%(.?)", text, re.DOTALL):
        if escape[1] not in ("*", "?", "%"):
            yield escape.start() + 1, "% stands only before *, ? or another %"
            return


def _style_problems(text: str, style: str) -> Iterator[_Problem]:
    if "/" in text:
        yield text.index("/") + 1, f"/ separates levels here, and in style {style} it does not"
    wildcards, levels = _WILDCARDS[style], list(_columns(text, "."))
    for column, level in levels:
        if level in (ONE, ANY) and level not in wildcards:
            yield column, f"{level} alone as a level is a wildcard here, and in style {style} it is not"
    for column, level in levels[:-1]:
        if style == "tibco" and level == ">":
            yield column, "> stands only at the end"


def _columns(text: str, separator: str) -> Iterator[tuple[int, str]]:
    levels = text.split(separator)
    starts = accumulate((len(level) + 1 for level in levels), initial=1)
    return zip(starts, levels, strict=False)


def _refuse_first(text: str, problems: list[_Problem]) -> None:
    if problems:
        column, problem = min(problems)
        raise InvalidTopic(_excerpt(text), column, problem)


def _excerpt(text: str) -> str:
    # The text can be what is too long, and then the error must not be.
    return text if len(text) <= TOPIC_CHARACTERS_MAX else text[:_EXCERPT_CHARACTERS] + "..."
