# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a program and where: file, line, column, plain words, and the line with a caret below.

order.esql:3:14: found 'DO' where THEN or an operator belongs
  IF x = 1 DO
           ^
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from lark import Token

from entrepot.errors.esql import EsqlInvalid
from entrepot.esql.parsing.words import STATEMENT_STARTS, words

MISTAKE = "mistake"
WARNING = "warning"

_EXCERPT_CHARACTERS_MAX = 120


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    file: str
    line: int
    column: int
    problem: str
    severity: str = MISTAKE
    excerpt: str = ""

    @property
    def is_warning(self) -> bool:
        """It may be meant so; the program runs."""
        return self.severity == WARNING

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.problem}"


def excerpt_of(text: str, line: int, column: int) -> str:
    """The line, cut to what a terminal shows, with a caret below the column; lines and columns count from 1."""
    lines = text.split("\n", line)
    source = lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else ""
    source = "".join(character if character.isprintable() else " " for character in source)
    start = 0
    if len(source) > _EXCERPT_CHARACTERS_MAX:
        start = max(0, min(column - _EXCERPT_CHARACTERS_MAX // 2, len(source) - _EXCERPT_CHARACTERS_MAX))
        source = source[start : start + _EXCERPT_CHARACTERS_MAX]
    indent = len(source) - len(source.lstrip())
    indent = min(indent, max(0, column - 1 - start))
    return f"  {source[indent:]}\n  {' ' * max(0, column - 1 - start - indent)}^"


def mistake_in(
    text: str, file: str, line: int, column: int, problem: str, *, severity: str = MISTAKE, first_line: int = 1
) -> Mistake:
    """A mistake with its excerpt; `first_line` is the line that the text's first line has in its file."""
    return Mistake(file, line, column, problem, severity, excerpt_of(text, line - first_line + 1, column))


def invalid(mistakes: Iterable[Mistake]) -> EsqlInvalid:
    """The error that tells them all; warnings are left out."""
    errors = sorted(mistake for mistake in mistakes if not mistake.is_warning)
    return EsqlInvalid(tuple((told_.file, told_.line, told_.column, told_.problem, told_.excerpt) for told_ in errors))


# --- what the parser found and expected, in words --------------------------------------------------

_SIGNS = {
    "_SEMICOLON": "';'",
    "_COMMA": "','",
    "_COLON": "':'",
    "_DOT": "'.'",
    "_LPAR": "'('",
    "_RPAR": "')'",
    "LBRACE": "'{'",
    "_RBRACE": "'}'",
    "LBRACKET": "'['",
    "_RBRACKET": "']'",
    "EQUAL": "'='",
    "LESS": "'<'",
    "GREATER": "'>'",
    "STAR": "'*'",
    "IDENTIFIER": "a name",
    "QUOTED": "a name",
    "STEP_NAME": "a name",
    "TEXT": "a text in quotes",
    "INTEGER_TEXT": "a number",
    "INTERVAL_FIELD": "YEAR, MONTH, DAY, HOUR, MINUTE, SECOND",
    "$END": "the end",
    "SIGN": "a sign",
}
_EXPRESSION = words(
    "TEXT BLOB_TEXT BIT_TEXT INTEGER_TEXT DECIMAL_TEXT FLOAT_TEXT TEMPORAL INTERVAL TRUE FALSE UNKNOWN NULL NILADIC"
    " IDENTIFIER QUOTED _LPAR SIGN NOT CASE CAST TRIM SUBSTRING POSITION OVERLAY EXTRACT ROUND ASBITSTREAM"
    " PASSTHRU_CALL THE ROW LIST SELECT ITEM AGGREGATE"
)
_OPERATORS = words("SIGN STAR SLASH CONCATENATE EQUAL LESS GREATER COMPARISON AND OR IS IN LIKE BETWEEN NOT")
_TYPES = words("TYPE_NAME INTERVAL REFERENCE CONSTANT SHARED EXTERNAL NAME NAMESPACE")
_PATH_GOES_ON = frozenset({"_DOT", "LBRACKET", "_LPAR", "_COLON"})
_NAMED_MAX = 6


def found_in_words(token: Token) -> str:
    """What stands where the parser stopped."""
    if token.type == "$END":
        return "the end of the text"
    shown = str(token.value)
    if len(shown) > 40:
        shown = shown[:37] + "..."
    shown = "".join(character if character.isprintable() else " " for character in shown)
    if token.type in ("TEXT", "QUOTED"):
        return f"the text {shown}" if token.type == "TEXT" else f'the name "{shown}"'
    return f"'{shown}'"


def expected_in_words(terminals: Collection[str]) -> str:
    """What could stand there, the telling things first."""
    left = set(terminals) - {"ERROR"}
    if len(left) > 1:
        left.discard("$END")
    if {"CREATE", "DECLARE"} <= left:
        left.discard("_SEMICOLON")
    words: list[str] = []
    if len(STATEMENT_STARTS & left) > len(STATEMENT_STARTS) // 2:
        words.append("a statement")
        left -= STATEMENT_STARTS | {"IDENTIFIER", "QUOTED", "_SEMICOLON"}
    if "TYPE_NAME" in left:
        words.append("a type")
        left -= _TYPES
    if {"CASE", "CAST", "TEXT"} <= left:
        words.append("an expression")
        left -= _EXPRESSION
    if {"CONCATENATE", "SIGN"} <= left:
        words.append("an operator")
        left -= _OPERATORS | _PATH_GOES_ON
    elif len(left) > 2:
        left -= {"_DOT", "LBRACKET", "_COLON"}
    named = sorted({_SIGNS.get(terminal, terminal.removeprefix("_")) for terminal in left})
    # Signs and short lists say more than a catalogue of clauses.
    named.sort(key=lambda word: (not word.startswith("'"), word))
    words = named[:_NAMED_MAX] + words
    if len(named) > _NAMED_MAX:
        words.append("another clause")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "nothing"


def unexpected(token: Token, expected: Collection[str]) -> str:
    """The sentence for a token that no rule takes."""
    if token.type == "UNCLOSED":
        opened = str(token.value)[:2] if str(token.value).startswith("/*") else str(token.value)[:1]
        what = {"/*": "the comment", '"': "the name", "'": "the text"}[opened]
        return f"{what} that begins here has no end"
    if token.type == "STRANGE":
        shown = str(token.value)
        if shown[:1].isdigit():
            return f"{shown[:40]!r} is neither a number nor a name"
        if shown in "‘’“”´`":
            return f"{shown} is no quote of ESQL; texts stand in ' and names in \""
        return f"{shown!r} means nothing in ESQL"
    return f"found {found_in_words(token)} where {expected_in_words(expected)} belongs"


def no_statement(word: Token) -> str:
    """The sentence for a name where a statement begins and no label is."""
    similar = get_close_matches(str(word.value).upper(), sorted(STATEMENT_STARTS - {"PASSTHRU_CALL"}), 1, 0.6)
    return f"'{word.value}' begins no statement" + (f"; is {similar[0]} meant?" if similar else "")
