# SPDX-License-Identifier: Apache-2.0
"""Statements on references and fields to Python: MOVE, CREATE, DELETE, ATTACH, DETACH."""

from __future__ import annotations

from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.names import CompilerSymbol
from entrepot.esql.compiler.state import RoutineState
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import Attach, Create, DeleteField, Detach, Move, Statement


class FieldCompiler:
    """References that move, and elements that come and go."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._names = state.names
        self._lines = state.lines
        self._paths = expressions.paths

    def _reference(self, name: str, node: Statement) -> CompilerSymbol:
        symbol = self._names.find(name)
        if symbol is None or symbol.kind != "reference":
            raise Unsupported(node, f"{name} is no REFERENCE variable")
        return symbol

    def do_Move(self, node: Move) -> None:
        reference = self._reference(node.reference, node).python
        into = f"{reference}, moved_{reference}, at_{reference}"
        if node.direction == "TO":
            assert node.target is not None
            self._lines.statement(f"{into} = move_to({reference}, {self._paths.element(node.target)})")
            return
        if node.direction == "PARENT":
            self._lines.statement(f"{into} = parent_of({reference})")
            return
        pattern = "None"
        if node.name is not None or node.namespace is not None or node.kinds:
            namespace = "None" if node.any_namespace else "''" if node.name is not None else "None"
            if node.namespace is not None:
                namespace = f"namespace_of({self._expressions.expression(node.namespace).text})"
            elif node.name is not None and not node.any_namespace:
                namespace = "None"
            name = "None" if node.name is None or node.any_name else self._expressions.expression(node.name).text
            pattern = f"({namespace}, {name}, {self._paths.kinds(node.kinds)})"
        repeat = repr(node.repeat)
        if node.direction in ("NEXTSIBLING", "PREVIOUSSIBLING"):
            step = 1 if node.direction == "NEXTSIBLING" else -1
            self._lines.statement(f"{into} = sibling({reference}, at_{reference}, {step}, {pattern}, {repeat})")
        else:
            self._lines.statement(
                f"{into} = child_of({reference}, {node.direction == 'LASTCHILD'}, {pattern}, {repeat})"
            )

    def do_Create(self, node: Create) -> None:
        clauses = self._create_clauses(node)
        base, steps = self._paths.base(node.target)
        if node.where == "FIELD":
            code = f"created_field({self._paths.made(base, steps)}, run{clauses})"
        else:
            target = self._paths.below(base, steps)
            code = f"created_beside({target}, {node.where!r}, run{clauses})"
        if not node.alias:
            self._lines.statement(code)
            return
        symbol = self._names.find(node.alias)
        if symbol is None or symbol.kind != "reference":
            raise Unsupported(node, f"AS {node.alias} names no REFERENCE variable")
        self._lines.statement(f"{symbol.python}, moved_{symbol.python}, at_{symbol.python} = {code}, True, 0")

    def _create_clauses(self, node: Create) -> str:
        """Keyword arguments for what CREATE says of the new element."""
        parts = []
        if node.domain is not None:
            parts.append(f"domain={self._expressions.expression(node.domain).text}")
        if node.kinds:
            parts.append(f"kinds={self._paths.kinds(node.kinds)}")
        if node.namespace is not None:
            parts.append(f"namespace={self._expressions.expression(node.namespace).text}")
        for name, clause in (
            ("name", node.name),
            ("value", node.value),
            ("parse", node.parse),
            ("options", node.options),
            ("encoding", node.encoding),
            ("ccsid", node.ccsid),
            ("message_set", node.set),
            ("message_type", node.type),
            ("message_format", node.format),
        ):
            if clause is not None:
                parts.append(f"{name}={self._expressions.expression(clause).text}")
        if node.source is not None:
            parts.append(f"source={self._expressions.tree(node.source).text}, copies=True")
        if node.repeat:
            parts.append(f"repeat={node.repeat!r}")
        return "".join(f", {part}" for part in parts)

    def do_DeleteField(self, node: DeleteField) -> None:
        base, steps = self._paths.base(node.target)
        target = self._paths.below(base, steps)
        self._lines.statement(
            f"discard({target})" if node.where == "FIELD" else f"discard(neighbour({target}, {node.where!r}))"
        )

    def do_Attach(self, node: Attach) -> None:
        reference = self._reference(node.reference, node).python
        base, steps = self._paths.base(node.target)
        self._lines.statement(f"attach({reference}, {self._paths.made(base, steps)}, {node.where!r})")

    def do_Detach(self, node: Detach) -> None:
        self._lines.statement(f"detach({self._reference(node.reference, node).python})")
