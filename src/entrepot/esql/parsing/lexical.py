# SPDX-License-Identifier: Apache-2.0
"""ESQL text as tokens, with the parser's help: what a word is depends on what can stand there.

Only twelve words of ESQL are reserved. Every other word is a keyword where
the parser can use one, and a name elsewhere; where both are possible, the
next character tells: CAST is a function before a bracket, DATE a literal
before a quote, NULL a name before a dot.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

from lark import Token

from entrepot.esql.parsing.words import INTERVAL_FIELDS, NILADIC, RESERVED, TYPE_WORDS, words

_BEFORE_BRACKET = words(
    "ASBITSTREAM AGGREGATE CAST EVAL EXTRACT OVERLAY PASSTHRU_CALL POSITION ROUND ROW SUBSTRING THE TRIM"
)
_BEFORE_QUOTE = frozenset({"TEMPORAL", "INTERVAL"})
_NAME_GOES_ON = frozenset(".:[=,;)")
"""After one of these, what could be a keyword was a name."""

_WORD = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(
    r"""
      (?P<space>(?:\s+|--[^\n]*|/\*(?s:.*?)\*/)+)
    | (?P<BLOB_TEXT>[xX]'[^']*')
    | (?P<BIT_TEXT>[bB]'[^']*')
    | (?P<word>[^\W\d]\w*)
    | (?P<INTEGER_TEXT>0[xX][0-9a-fA-F]+(?!\w))
    | (?P<FLOAT_TEXT>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+(?!\w))
    | (?P<DECIMAL_TEXT>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?!\w))
    | (?P<number>[0-9]+(?!\w))
    | (?P<TEXT>'[^']*(?:''[^']*)*')
    | (?P<QUOTED>"[^"]*(?:""[^"]*)*")
    | (?P<COMPARISON><>|<=|>=)
    | (?P<CONCATENATE>\|\|)
    | (?P<unclosed>'|"|/\*)
    | (?P<sign>[-+*/=<>.,;:()\[\]{}])
    """,
    re.VERBOSE,
)
_SIGNS = {
    "-": "SIGN",
    "+": "SIGN",
    "*": "STAR",
    "/": "SLASH",
    "=": "EQUAL",
    "<": "LESS",
    ">": "GREATER",
    ".": "_DOT",
    ",": "_COMMA",
    ";": "_SEMICOLON",
    ":": "_COLON",
    "(": "_LPAR",
    ")": "_RPAR",
    "[": "LBRACKET",
    "]": "_RBRACKET",
    "{": "LBRACE",
    "}": "_RBRACE",
}
_SPACE = re.compile(r"(?:\s+|--[^\n]*|/\*(?s:.*?)\*/)*")
_SIZE = re.compile(r"\s*\(\s*[0-9]{1,9}\s*(?:,\s*[0-9]{1,9}\s*)?\)")
_SQL_PROPERTY = re.compile(r"\s*\.\s*(\w+)(?!\s*[.\[:(]|\w)")
_HANDLER = re.compile(r"\s+HANDLER\b", re.IGNORECASE)
_ROLES = {
    **dict.fromkeys(TYPE_WORDS, "TYPE_NAME"),
    **dict.fromkeys(INTERVAL_FIELDS, "INTERVAL_FIELD"),
    **dict.fromkeys(("COUNT", "SUM", "MIN", "MAX"), "AGGREGATE"),
    "INFINITY": "INF",
}
"""Words that play the part of another terminal."""
_STRUCTURE = words(
    "ATTACH BEGIN CALL CREATE DECLARE DELETE DETACH DO ELSE ELSEIF FOR IF INSERT LEAVE MOVE PROPAGATE RETURN SET"
    " THEN THROW UPDATE WHILE"
)
"""Words that begin statements or their parts; few name a variable by one of these."""
_CLASSES = words(
    "AGGREGATE BIT_TEXT BLOB_TEXT COMPARISON CONCATENATE DECIMAL_TEXT EQUAL ERROR FLOAT_TEXT GREATER IDENTIFIER"
    " INTEGER_TEXT INTERVAL_FIELD LBRACE LBRACKET LESS NILADIC PASSTHRU_CALL QUOTED SIGN SLASH STAR STEP_NAME TEMPORAL"
    " TEXT TYPE_NAME"
)
"""What the grammar calls whole classes of tokens; a program's own TEXT or SIGN is a name like any other."""
_TEMPORAL = frozenset({"DATE", "TIME", "TIMESTAMP", "GMTTIME", "GMTTIMESTAMP", "DECIMAL"})
"""Words that stand before a quoted value of their type."""


class EsqlTokens:
    """The tokens of one text; `accepted` says for each what the parser could take there."""

    def __init__(self, text: str, keywords: Container[str], line: int = 1) -> None:
        self.text = text
        self._keywords = keywords
        self._first_line = line
        self._declared: frozenset[str] | None = None

    def tokens(self, parser_state: Any) -> Iterator[Token]:
        """Every token, classified by the state that the parser is in when it is asked for.

        What is no ESQL comes as a token that no rule takes: STRANGE, UNCLOSED.
        """
        text = self.text
        states, stack = parser_state.parse_conf.states, parser_state.state_stack
        match = _TOKEN.match
        position, line, line_start, end = 0, self._first_line, 0, len(text)
        while position < end:
            found = match(text, position)
            if found is None:
                # A number that runs into letters is told as a whole.
                stray = re.compile(r"\w+|.", re.DOTALL).match(text, position)
                assert stray is not None
                yield Token("STRANGE", stray.group(), position, line, position - line_start + 1)
                position = stray.end()
                continue
            kind, value, after = found.lastgroup, found.group(), found.end()
            if kind != "space":
                column = position - line_start + 1
                if kind == "word":
                    name, after = self._word(value, position, after, states[stack[-1]])
                    value = text[position:after]
                elif kind == "sign":
                    name = _SIGNS[value]
                elif kind == "number":
                    name = "INTEGER_TEXT"
                elif kind == "unclosed":
                    name, after = "UNCLOSED", end
                elif kind == "QUOTED":
                    name, value = "QUOTED", value[1:-1].replace('""', '"')
                else:
                    assert kind is not None
                    name = kind
                yield Token(name, value, position, line, column, end_pos=after)
            if "\n" in text[position:after]:
                line += text.count("\n", position, after)
                line_start = text.rindex("\n", position, after) + 1
            position = after

    def _word(self, word: str, start: int, end: int, accepted: Container[str]) -> tuple[str, int]:
        """What a word is where `accepted` can stand, and where it ends: a type's size belongs to it."""
        upper = word.upper()
        if upper in _CLASSES:
            upper = ""
        if "STEP_NAME" in accepted and (self.text[start - 1] == ")" or upper not in accepted):
            return "STEP_NAME", end
        role = _ROLES.get(upper, upper)
        if upper == "PASSTHRU" and self._next(end) == "(":
            role = "PASSTHRU_CALL"
        elif upper in _TEMPORAL and "TYPE_NAME" not in accepted:
            role = "TEMPORAL"
        elif role != upper and role not in accepted:
            role = upper
        if "IDENTIFIER" not in accepted:
            if role == "TYPE_NAME":
                sized = _SIZE.match(self.text, end)
                return role, sized.end() if sized else end
            return (role if role in self._keywords else "IDENTIFIER"), end
        if role in accepted and role in self._keywords and self._is_keyword(upper, role, end):
            return role, end
        if "NILADIC" in accepted:
            asked = self._niladic(word, upper, end)
            if asked:
                return "NILADIC", asked
        if upper in _STRUCTURE and self._names_nothing(end):
            return upper, end
        return "IDENTIFIER", end

    def _niladic(self, word: str, upper: str, end: int) -> int:
        """Where a call without brackets ends, such as SQLCODE or SQL.MessageFlowLabel; 0 when the word is none."""
        if upper == "SQL":
            found = _SQL_PROPERTY.match(self.text, end)
            if found is None or found[1].upper() not in NILADIC:
                return 0
            end = found.end()
        elif upper not in NILADIC or self._next(end) in (".", "[", ":", "("):
            return 0
        if self._declared is None:
            self._declared = _declared(self.text)
        return 0 if word in self._declared else end

    def _names_nothing(self, end: int) -> bool:
        """Whether a word follows that can follow no name.

        THEN in `IF x = THEN SET y = 1` could be a variable, but then SET would
        be the mistake; this way, the mistake is told where it is.
        """
        space = _SPACE.match(self.text, end)
        assert space is not None
        following = _WORD.match(self.text, space.end())
        if following is None:
            return False
        upper = following.group().upper()
        return upper in _STRUCTURE or (upper not in self._keywords and upper not in _ROLES)

    def _is_keyword(self, upper: str, role: str, end: int) -> bool:
        """Where a name could stand as well."""
        if upper in RESERVED:
            return True
        following = self._next(end)
        if role in _BEFORE_BRACKET:
            return following == "("
        if role in _BEFORE_QUOTE:
            return following == "'" or (role == "INTERVAL" and following in ("+", "-"))
        if role == "LIST":
            return following == "{"
        if role in ("CONTINUE", "EXIT"):
            return _HANDLER.match(self.text, end) is not None
        if role in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            return following not in (".", ":", "[", "(")
        if role == "SELECT":
            return following not in _NAME_GOES_ON
        return following != ":"

    def _next(self, position: int) -> str:
        """The next character that means something; empty at the end."""
        space = _SPACE.match(self.text, position)
        assert space is not None
        return self.text[space.end() : space.end() + 1]


_DECLARATION = re.compile(
    r"\bDECLARE\s+(?P<names>\w+(?:\s*,\s*\w+)*)"
    r"|(?:\b(?:IN|OUT|INOUT)\s+|[(,]\s*)(?P<parameter>\w+)\s+(?:CONSTANT\s+)?(?:REFERENCE|"
    + "|".join(sorted(TYPE_WORDS))
    + r")\b|\bFOR\s+(?P<loop>\w+)\s+AS\b",
    re.IGNORECASE,
)


def _declared(text: str) -> frozenset[str]:
    """Names that the text may declare: a variable called NodeLabel hides the property of that name."""
    names: set[str] = set()
    for found in _DECLARATION.finditer(text):
        names.update(_WORD.findall(found["names"] or found["parameter"] or found["loop"]))
    return frozenset(names)
