# SPDX-License-Identifier: Apache-2.0
"""The bugs that can be planted in a module, each a replacement of some bytes of its source.

The operators are those mistakes that lose messages or let strangers in: a
force that is left out, two steps in the wrong order, a bound that is off by
one, a check that is dropped, a constant that is wrong. Where the change would
be of no account, there is no mutant: steps of different objects, moments that
are never equal, bounds that a module sets itself, counters that count by two.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

OPERATORS = ("removed force", "removed call", "swapped order", "off by one", "dropped check", "wrong constant")

_FORCES = frozenset({"fdatasync", "force", "force_all", "force_folder", "force_runs", "fsync"})
# What these calls do is for people: no promise hangs on a line of a log.
_SPOKEN = frozenset({"critical", "debug", "error", "exception", "info", "log", "warn", "warning"})
_CHECKS = ("require", "check", "refuse", "vet")
# A moment is never equal to another; and nobody was promised a bound whose name no other module knows.
_NOT_EXACT = re.compile(
    rb"\b(now|monotonic|elapsed|perf_counter|process_time|time|deadline|due)\b|_s\b|\b_[A-Z][A-Z_]+\b"
)
_TUNED = 1000
"""From here on a number is a size that somebody chose."""
_OFF_BY_ONE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug that can be planted: `replacement` for the bytes from `start` to `end` of the module."""

    operator: str
    function: str
    ordinal: int
    """Which one of its operator within the function: lines move, this seldom does."""
    line: int
    start: int
    end: int
    replacement: bytes

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement + source[self.end :]


def mutations(source: bytes) -> list[Mutation]:
    """Every bug that can be planted in a module."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._scope: list[str] = []
        self._ordinals: Counter[tuple[str, str]] = Counter()
        self.found: list[Mutation] = []

    # --- places -----------------------------------------------------------------------------------

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> bytes:
        start, end = self._span(node)
        return self._source[start:end]

    def _add(self, operator: str, node: ast.expr | ast.stmt, replacement: bytes | str, end: int | None = None) -> None:
        if not self._scope:
            return  # what a module does while it is imported is its form, not its behaviour
        start, node_end = self._span(node)
        function = ".".join(self._scope)
        self._ordinals[operator, function] += 1
        text = replacement.encode() if isinstance(replacement, str) else replacement
        ordinal = self._ordinals[operator, function]
        self.found.append(Mutation(operator, function, ordinal, node.lineno, start, end or node_end, text))

    # --- scopes -----------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in ("__repr__", "__str__", "describe"):
            return
        self._scope.append(node.name)
        self._visit_body(node.body)
        self._scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in node.body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._scope.append(node.name)
                self.visit(each)
                self._scope.pop()

    def _visit_body(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)
        self._swaps(body)

    # --- statements -------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        name = _called(node)
        if name is None or name in _SPOKEN:
            return  # a docstring, or words for people
        if name in _FORCES:
            self._add("removed force", node, "pass")
        elif _is_check(node):
            self._add("dropped check", node, "pass")
        else:
            self._add("removed call", node, "pass")
        self.generic_visit(node)

    def _swaps(self, body: Sequence[ast.stmt]) -> None:
        for first, second in pairwise(body):
            if _called(first) in (None, *_SPOKEN) or _called(second) in (None, *_SPOKEN):
                continue
            if self._text(first) != self._text(second) and self._depend(first, second):
                between = self._source[self._span(first)[1] : self._span(second)[0]]
                swapped = self._text(second) + between + self._text(first)
                self._add("swapped order", first, swapped, self._span(second)[1])

    def _depend(self, first: ast.stmt, second: ast.stmt) -> bool:
        """Whether the order of two calls may matter: both are of one object, or one is about the other's, or forces."""
        if _is_check(first) and _is_check(second):
            return False
        if _FORCES & {_called(first), _called(second)}:
            return True
        one, other = (self._text(_call(each).func).rpartition(b".")[0] for each in (first, second))
        if one == other:
            return True
        for note, reader in ((first, second), (second, first)):
            owner = self._text(_call(note).func).partition(b".")[0]
            # What is appended to a list matters only to a call that knows the list.
            if _called(note) == "append" and owner != b"self" and owner not in re.findall(rb"\w+", self._text(reader)):
                return False
        words = [set(re.findall(rb"\w+", self._text(each))) - {b"self"} for each in (first, second)]
        return (one != b"self" and one in words[1]) or (other != b"self" and other in words[0])

    def visit_If(self, node: ast.If) -> None:
        raises = len(node.body) == 1 and isinstance(node.body[0], ast.Raise)
        if raises and not node.orelse:
            self._add("dropped check", node.test, "False")
        self.visit(node.test)
        self._visit_body(node.body)
        self._visit_body(node.orelse)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._visit_body(node.body)
        self._visit_body(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_body(node.body)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
        self._visit_body(node.body)

    def visit_Try(self, node: ast.Try) -> None:
        self._visit_body(node.body)
        for handler in node.handlers:
            self._visit_body(handler.body)
        self._visit_body(node.orelse)
        self._visit_body(node.finalbody)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is for people."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """A guard of our own invariants: dropping it changes nothing while they hold."""

    # --- expressions ------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            kind = type(node.ops[0])
            for operator, others in (("off by one", _OFF_BY_ONE), ("wrong constant", _OPPOSITE)):
                exact = operator != "off by one" or not _NOT_EXACT.search(self._text(node))
                if kind in others and exact:
                    other = ast.Compare(node.left, [others[kind]()], node.comparators)
                    self._add(operator, node, ast.unparse(other))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        without_last = node.values[0] if len(node.values) == 2 else ast.BoolOp(node.op, node.values[:-1])
        self._add("dropped check", node, f"({ast.unparse(without_last)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant) and node.right.value == 1:
            self._add("off by one", node.right, "0")
            self.visit(node.left)
        else:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("wrong constant", node, str(not node.value))
        elif isinstance(node.value, int) and node.value < _TUNED:
            self._add("wrong constant", node, str(node.value + 1))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if not (isinstance(node.func, ast.Name) and node.func.id == "round"):
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of zip: a guard like assert
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text is for people, and the places inside of one are not those of the file."""


def _call(statement: ast.stmt) -> ast.Call:
    """The call that is all of a statement."""
    assert isinstance(statement, ast.Expr)
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    assert isinstance(value, ast.Call)
    return value


def _called(node: ast.stmt) -> str | None:
    """The name of the function that a statement does nothing but call."""
    if not isinstance(node, ast.Expr):
        return None
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    if not isinstance(value, ast.Call):
        return None
    function = value.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def _is_check(statement: ast.stmt) -> bool:
    """Whether a statement does nothing but refuse what is wrong."""
    name = _called(statement) or ""
    function = _call(statement).func if name else None
    of_checks = (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "checks"
    )
    return of_checks or name.lstrip("_").startswith(_CHECKS)


def shown(source: bytes, mutation: Mutation) -> Iterator[str]:
    """The lines that differ, as a diff shows them."""
    first = source.count(b"\n", 0, mutation.start)
    last = source.count(b"\n", 0, mutation.end) + 1
    changed = mutation.apply(source).splitlines()
    extra = len(changed) - len(source.splitlines())
    yield from (f"- {line.decode().strip()}" for line in source.splitlines()[first:last])
    yield from (f"+ {line.decode().strip()}" for line in changed[first : last + extra])
