# SPDX-License-Identifier: Apache-2.0
"""DECLARE and SET to Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.names import TREES, CompilerSymbol
from entrepot.esql.compiler.selects import SCALARS, list_function
from entrepot.esql.compiler.state import RoutineState
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import Declare, Expression, Literal, Path, Set, Statement, Step

COPIES_LEAST = 4
"""Fewer copies in a row are not worth asking whether they can be done as one."""


_MODEL_NAMES = ("MessageSet", "MessageType", "MessageFormat")


class PlainCopy(NamedTuple):
    """A field of the message that goes out, and the one of the message that came whose value it gets."""

    path: tuple[str, ...]
    key: str
    folder: str
    name: str


class AssignmentCompiler:
    """Variables and fields that get a value."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._names = state.names
        self._constants = state.constants
        self._lines = state.lines
        self._body = state.lines.body
        self._trees = state.trees
        self._paths = expressions.paths

    def do_Declare(self, node: Declare) -> None:
        for name in node.names:
            self._declare(node, name)

    def _declare(self, node: Declare, name: str) -> None:
        if node.kind == "namespace":
            self._names.declare(name, CompilerSymbol("namespace", "", _namespace_value(node)))
            return
        kind = node.type.name if node.type is not None else "CHARACTER"
        known = self._names.declared_here(name)
        if kind == "REFERENCE":
            python = known.python if known is not None else self._names.fresh(name, "r")
            if not isinstance(node.value, Path):
                raise Unsupported(node, f"REFERENCE {name} needs TO and a field reference")
            base, steps = self._paths.base(node.value)
            target = self._paths.below(base, steps)
            self._names.declare(name, CompilerSymbol("reference", python))
            self._lines.statement(f"{python}, moved_{python}, at_{python} = refer({target}, {base})")
            return
        if kind in ("ROW", "LIST"):
            python = known.python if known is not None else self._names.fresh(name, "row")
            value = None if node.value is None else self._expressions.tree(node.value)
            self._names.declare(name, CompilerSymbol("row", python))
            self._lines.statement(f"{python} = Root({name!r})")
            if value is not None:
                self._lines.statement(f"assign({python}, {value.text})")
            return
        python = known.python if known is not None else self._names.fresh(name)
        value_text = (
            "None" if node.value is None else self._constants.converted(self._expressions.expression(node.value), kind)
        )
        self._names.declare(name, CompilerSymbol("scalar", python, kind, constant=node.constant))
        self._lines.statement(f"{python} = {value_text}")

    def do_Set(self, node: Set) -> None:
        target = node.target
        scalar = self._paths.is_scalar(target)
        if scalar is not None:
            if scalar.constant or scalar.kind == "namespace":
                raise Unsupported(node, f"{target.steps[0].name} is a constant")
            self._lines.statement(
                f"{scalar.python} = {self._constants.converted(self._expressions.scalar(node.value), scalar.type)}"
            )
            return
        base, steps = self._paths.base(target)
        if node.facet in ("NAME", "NAMESPACE", "TYPE"):
            function = {"NAME": "set_name", "NAMESPACE": "set_namespace", "TYPE": "set_type"}[node.facet]
            value = self._expressions.scalar(node.value).text
            self._lines.statement(f"{function}({self._paths.made(base, steps)}, {value})")
        elif node.facet == "VALUE":
            value = self._expressions.scalar(node.value).text
            self._lines.statement(f"set_value({self._paths.made(base, steps)}, {value})")
        elif self._paths.is_list(target):
            value = self._expressions.tree(node.value).text
            parent = self._paths.made(base, steps[:-1])
            self._lines.statement(
                f"{list_function(node.value)}({parent}, {self._paths.pattern(replace(steps[-1], index=None))}, {value})"
            )
        else:
            self._set_field(base, steps, node.value)

    def plain_copies(self, body: Sequence[Statement], at: int) -> list[PlainCopy]:
        """The copies in a row that begin there: between the same two places, each to a field of its own."""
        found: list[PlainCopy] = []
        made: set[str] = set()
        for statement in body[at:]:
            copy = self._plain_copy(statement)
            if (
                copy is None
                or copy.key in made
                or (found and (copy.path, copy.folder) != (found[0].path, found[0].folder))
            ):
                break
            made.add(copy.key)
            found.append(copy)
        return found

    def _plain_copy(self, node: Statement) -> PlainCopy | None:
        """SET OutputRoot.folder.field = InputRoot.folder.field, by plain names alone; None for all others."""
        if not isinstance(node, Set) or node.facet or not isinstance(node.value, Path):
            return None
        target, source = self._plain_steps(node.target, "OutputRoot"), self._plain_steps(node.value, "InputRoot")
        if target is None or source is None or len(target) < 2 or len(source) != 2:
            return None
        return PlainCopy(target[:-1], target[-1], source[0], source[1])

    def model_names(self, body: Sequence[Statement], at: int) -> dict[str, str]:
        """What SET OutputRoot.Properties.MessageSet = '...' and its like say that begin there, in a row."""
        found: dict[str, str] = {}
        for statement in body[at:]:
            if not isinstance(statement, Set) or statement.facet or not isinstance(statement.value, Literal):
                break
            steps, value = self._plain_steps(statement.target, "OutputRoot"), statement.value.value
            if steps is None or len(steps) != 2 or steps[0] != "Properties" or steps[1] not in _MODEL_NAMES:
                break
            if steps[1] in found or type(value) is not str:
                break
            found[steps[1]] = value
        return found

    def _plain_steps(self, path: Path, root: str) -> tuple[str, ...] | None:
        if len(path.steps) < 2 or self._paths.is_scalar(path) is not None:
            return None
        symbol, steps = self._paths.resolve(path)
        if symbol.kind != "tree" or symbol.python != root or root not in self._trees:
            return None
        keys = [self._paths.plain_key(step) for step in steps]
        return None if None in keys else tuple(key for key in keys if key is not None)

    def _set_field(self, base: str, steps: tuple[Step, ...], node: Expression) -> None:
        value = self._expressions.tree(node)
        if value.text == "None":
            self._lines.statement(f"discard({self._paths.below(base, steps)})")
            return
        if value.type == "TREE" and value.text in TREES["COMPUTE"]:
            self._lines.statement(f"take({self._paths.made(base, steps)}, {value.text})")
            return
        if value.type == "TREE" and base in self._trees and len(steps) == 1:
            key = self._paths.plain_key(steps[0])
            if key is not None:
                self._lines.statement(f"take_folder({base}, {key!r}, {value.text})")
                return
        if value.type == "TREE":
            kept = self._names.temporary()
            # The source is taken as it was before the target was made in it.
            copied = f"copied({value.text})" if self._holds(node, base, steps) else value.text
            self._lines.statement(f"{kept} = {copied}")
            with self._body.block(f"if {kept} is None:"):
                self._body.line(f"discard({self._paths.below(base, steps)})")
            with self._body.block("else:"):
                self._body.line(self._put("put_field", "take({}, {})", base, steps, kept))
            return
        if value.type in SCALARS and isinstance(node, Literal):
            self._lines.statement(self._put("put_scalar", "{}.set_value({})", base, steps, value.text))
            return
        kept = self._names.temporary()
        self._lines.statement(f"{kept} = {value.text}")
        with self._body.block(f"if {kept} is None:"):
            self._body.line(f"discard({self._paths.below(base, steps)})")
        with self._body.block("else:"):
            if value.type in SCALARS:
                self._body.line(self._put("put_scalar", "{}.set_value({})", base, steps, kept))
            else:
                self._body.line(f"assign({self._paths.made(base, steps)}, {kept})")

    def _put(self, below: str, else_: str, base: str, steps: tuple[Step, ...], value: str) -> str:
        """A call that gives something to a field: by its name below its parent, or to the field itself."""
        parent = self._paths.made_parent(base, steps)
        return (
            else_.format(self._paths.made(base, steps), value)
            if parent is None
            else f"{below}({parent[0]}, {parent[1]!r}, {value})"
        )

    def _holds(self, node: Expression, base: str, steps: tuple[Step, ...]) -> bool:
        """Whether a path leads to a place above another one, as far as names tell."""
        if not isinstance(node, Path):
            return False
        there, way = self._paths.base(node)
        keys = [self._paths.plain_key(step) for step in way]
        return (
            there == base and None not in keys and keys == [self._paths.plain_key(step) for step in steps[: len(way)]]
        )


def _namespace_value(node: Declare) -> str:
    if isinstance(node.value, Literal) and isinstance(node.value.value, str):
        return node.value.value
    raise Unsupported(node, "a NAMESPACE is a character literal")
