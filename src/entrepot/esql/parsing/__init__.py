# SPDX-License-Identifier: Apache-2.0
"""ESQL text to the tree of syntax.py.

The grammar is esql.lark; Lark makes its LALR table once per process. The
nodes are built while the parser reduces, so that no text, however deep,
needs recursion.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer

from entrepot.esql.mistakes import Mistake, invalid, mistake_in
from entrepot.esql.parsing.building import wrong_in
from entrepot.esql.parsing.lexical import EsqlTokens
from entrepot.esql.parsing.recovery import STACK_MAX, Found, Recovery, nested_too_deeply
from entrepot.esql.parsing.statements import FileBuilding
from entrepot.esql.syntax import Expression, SourceFile, Statement

TEXT_CHARACTERS_MAX = 4 * 1024 * 1024
"""A program of a hundred thousand lines; more is no program."""


def parse_file(text: str, file: str) -> SourceFile:
    """A whole .esql file.

    Raises:
        EsqlInvalid: With every syntax mistake that could be told apart.
    """
    text = text.removeprefix("\ufeff")
    parsed: SourceFile = _parse(text, file, "file", 1)
    return replace(parsed, file=file, text=text)


def parse_statements(text: str, file: str, line: int = 1) -> tuple[Statement, ...]:
    """Statements without a module around them, as old Compute nodes keep them; `line` is the number of their first.

    Raises:
        EsqlInvalid: With every syntax mistake that could be told apart.
    """
    statements: tuple[Statement, ...] = _parse(text, file, "body", line)
    return statements


def parse_expression(text: str, file: str, line: int = 1) -> Expression:
    """A lone expression: a filter, a property, one side of a mapping.

    Raises:
        EsqlInvalid: It is none.
    """
    expression: Expression = _parse(text, file, "lone_expression", line)
    return expression


# --- the parser ---------------------------------------------------------------------------------------


class _NoLexer(Lexer):
    """Lark wants a lexer; ours needs the parser's state and is fed by hand."""

    __future_interface__ = 2

    def __init__(self, _: Any) -> None:
        super().__init__()

    def lex(self, lexer_state: Any, parser_state: Any) -> Any:
        raise NotImplementedError


class _Builder:
    """The methods of FileBuilding, called with what a rule has found as their arguments."""

    def __init__(self) -> None:
        self._building = FileBuilding()

    def __getattr__(self, rule: str) -> Callable[[list[Any]], Any]:
        method = getattr(self._building, rule)
        return lambda children: method(*children)


@dataclass(frozen=True, slots=True)
class _Grammar:
    lark: Lark
    keywords: frozenset[str]

    def state(self, start: str) -> Any:
        return self.lark.parse_interactive(start=start).parser_state


def _table_file() -> str | None:
    """Where the parser's table is kept, since building it takes more than a second; None for nowhere.

    A file written there would be run as code, so it has to be a folder of our own that no other user can write to.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "entrepot"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):
        return None
    return str(folder / "esql.lark-table") if found.st_uid == os.getuid() and not found.st_mode & 0o022 else None


@cache
def _grammar() -> _Grammar:
    text = files("entrepot.esql").joinpath("esql.lark").read_text(encoding="utf-8")
    lark = Lark(
        text,
        parser="lalr",
        lexer=_NoLexer,
        start=["file", "body", "lone_expression"],
        maybe_placeholders=True,
        transformer=_Builder(),
        cache=_table_file() or False,
    )
    states = lark.parse_interactive(start="file").parser_state.parse_conf.states
    return _Grammar(lark, frozenset(name for actions in states.values() for name in actions if not name.islower()))


def _parse(text: str, file: str, start: str, line: int) -> Any:
    if len(text) > TEXT_CHARACTERS_MAX:
        problem = f"the text has {len(text):,} characters; {TEXT_CHARACTERS_MAX:,} are the most"
        raise invalid([Mistake(file, line, 1, problem)])
    grammar = _grammar()
    words = EsqlTokens(text, grammar.keywords, line)
    state = grammar.state(start)
    stack = state.state_stack
    feed = state.feed_token
    token = None
    try:
        for token in words.tokens(state):
            feed(token)
            if len(stack) > STACK_MAX:
                raise invalid(_placed(text, file, line, [nested_too_deeply(token)]))
        last = Token("$END", "", len(text), token.line if token else line, token.column if token else 1)
        result = feed(last, True)
    except UnexpectedToken:
        recovery = Recovery(words, grammar.state(start))
        found = recovery.run()
        raise invalid(_placed(text, file, line, [*found, *_wrong(recovery.result)])) from None
    wrong = _wrong(result)
    if wrong:
        raise invalid(_placed(text, file, line, wrong))
    return result


def _wrong(result: Any) -> list[Found]:
    return [Found(each.place.line, each.place.column, each.problem) for each in wrong_in(result)]


def _placed(text: str, file: str, first_line: int, found: list[Found]) -> list[Mistake]:
    return [mistake_in(text, file, each.line, each.column, each.problem, first_line=first_line) for each in found]
