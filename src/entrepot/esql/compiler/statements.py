# SPDX-License-Identifier: Apache-2.0
"""Statements to Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.names import TREES, CompilerSymbol
from entrepot.esql.compiler.paths import Code
from entrepot.esql.compiler.selects import SCALARS, list_function
from entrepot.esql.compiler.source import PythonLines
from entrepot.esql.syntax import (
    Attach,
    Begin,
    CallStatement,
    CaseStatement,
    Create,
    Declare,
    DeleteField,
    Detach,
    Expression,
    For,
    Handler,
    If,
    Iterate,
    Leave,
    LogStatement,
    Loop,
    Move,
    Path,
    Propagate,
    Repeat,
    Resignal,
    Return,
    Routine,
    Set,
    Statement,
    Step,
    Throw,
    While,
)


class StatementCompiler(ExpressionCompiler):
    """The part of a routine's compiler that knows statements."""

    def __init__(self) -> None:
        super().__init__()
        self.source = PythonLines()
        self.routine: Routine | None = None
        self.outs: list[str] = []
        """Python names of what the routine gives back beside its value."""
        self.loops: list[str] = []
        """Labels of the loops and blocks around us that Python can leave itself, innermost last."""

    # --- blocks ---------------------------------------------------------------------------------------

    def statements(self, body: tuple[Statement, ...]) -> None:
        handlers = [statement for statement in body if isinstance(statement, Handler)]
        rest = [statement for statement in body if not isinstance(statement, Handler)]
        if not handlers:
            for statement in rest:
                self.statement(statement)
            return
        # Variables are declared before handlers, and handlers may use them.
        first = next(number for number, statement in enumerate(body) if isinstance(statement, Handler))
        for statement in rest[:first]:
            self.statement(statement)
        if _goes_on(body):
            self._resuming(rest[first:], handlers)
            return
        with self.source.block("try:"):
            for statement in rest[first:]:
                self.statement(statement)
        with self.source.block("except HANDLED as error:"):
            self._handled(handlers)

    def _resuming(self, body: Sequence[Statement], handlers: list[Handler]) -> None:
        """Statements of a block with a CONTINUE handler: it goes on behind the one of them that failed."""
        reached = self.names.temporary()
        self.source.line(f"{reached} = 0")
        # To Python this is a loop, so leaving one around it takes a jump.
        self.loops.append("")
        with self.source.block(f"while {reached} < {len(body)}:"):
            with self.source.block("try:"):
                for number, statement in enumerate(body, 1):
                    self.source.place = statement.place
                    with self.source.block(f"if {reached} < {number}:"):
                        self.source.line(f"{reached} = {number}")
                        if isinstance(statement, Declare):
                            self._declaration(statement)
                        else:
                            self.statement(statement)
            with self.source.block("except HANDLED as error:"):
                self._handled(handlers)
        self.loops.pop()

    def _handled(self, handlers: list[Handler]) -> None:
        """The first handler that takes the error, in the order of the program."""
        resumes = any(handler.action == "CONTINUE" for handler in handlers)
        self.source.line("error = taken(error)")
        for number, handler in enumerate(handlers):
            self.source.place = handler.place
            with self.source.block(f"{'el' if number else ''}if handles(error, {handler.states!r}):"):
                with self.source.block("with run.handling(error):"), self.names.block():
                    self.statement(handler.body)
                if resumes and handler.action == "EXIT":
                    self.source.line("break")
        with self.source.block("else:"):
            self.source.line("raise")

    def _declaration(self, node: Declare) -> None:
        """Whatever its value comes to, the variable has to be there for a handler that goes on behind it."""
        known = {name for name in node.names if self.names.declared_here(name) is not None}
        start = len(self.source.lines)
        self.statement(node)
        for name in node.names:
            symbol = self.names.declared_here(name)
            if symbol is None or name in known or symbol.kind not in ("scalar", "reference"):
                continue
            python = symbol.python
            empty = f"{python} = None"
            if symbol.kind == "reference":
                empty = f"{python}, moved_{python}, at_{python} = Root({name!r}), False, 0"
            self.source.lines.insert(start, (self.source.depth, empty, node.place))

    def statement(self, node: Statement) -> None:
        self.source.place = node.place
        name = "do_" + type(node).__name__
        getattr(self if hasattr(self, name) else self.databases, name)(node)

    def line(self, text: str) -> None:
        """A line of this statement, after the functions that its expressions need."""
        self.flush(self.source)
        self.source.line(text)

    # --- declarations and SET ----------------------------------------------------------------------------

    def do_Declare(self, node: Declare) -> None:
        for name in node.names:
            self._declare(node, name)

    def _declare(self, node: Declare, name: str) -> None:
        if node.kind == "namespace":
            self.names.declare(name, CompilerSymbol("namespace", "", self.namespace_value(node)))
            return
        kind = node.type.name if node.type is not None else "CHARACTER"
        known = self.names.declared_here(name)
        if kind == "REFERENCE":
            python = known.python if known is not None else self.names.fresh(name, "r")
            if not isinstance(node.value, Path):
                raise self.unsupported(node, f"REFERENCE {name} needs TO and a field reference")
            base, steps = self.base(node.value)
            target = self.below(base, steps)
            self.names.declare(name, CompilerSymbol("reference", python))
            self.line(f"{python}, moved_{python}, at_{python} = refer({target}, {base})")
            return
        if kind in ("ROW", "LIST"):
            python = known.python if known is not None else self.names.fresh(name, "row")
            value = None if node.value is None else self.tree(node.value)
            self.names.declare(name, CompilerSymbol("row", python))
            self.line(f"{python} = Root({name!r})")
            if value is not None:
                self.line(f"assign({python}, {value.text})")
            return
        python = known.python if known is not None else self.names.fresh(name)
        value_text = "None" if node.value is None else self.converted(self.expression(node.value), kind)
        self.names.declare(name, CompilerSymbol("scalar", python, kind, constant=node.constant))
        self.line(f"{python} = {value_text}")

    def namespace_value(self, node: Declare) -> str:
        raise NotImplementedError

    def do_Set(self, node: Set) -> None:
        target = node.target
        scalar = self.is_scalar(target)
        if scalar is not None:
            if scalar.constant or scalar.kind == "namespace":
                raise self.unsupported(node, f"{target.steps[0].name} is a constant")
            self.line(f"{scalar.python} = {self.converted(self.scalar(node.value), scalar.type)}")
            return
        base, steps = self.base(target)
        if node.facet in ("NAME", "NAMESPACE", "TYPE"):
            function = {"NAME": "set_name", "NAMESPACE": "set_namespace", "TYPE": "set_type"}[node.facet]
            value = self.scalar(node.value).text
            self.line(f"{function}({self.made(base, steps)}, {value})")
        elif node.facet == "VALUE":
            value = self.scalar(node.value).text
            self.line(f"set_value({self.made(base, steps)}, {value})")
        elif self.is_list(target):
            value = self.tree(node.value).text
            parent = self.made(base, steps[:-1])
            self.line(f"{list_function(node.value)}({parent}, {self.pattern(replace(steps[-1], index=None))}, {value})")
        else:
            self._set_field(base, steps, node.value)

    def scalar(self, node: Expression) -> Code:
        code = self.expression(node)
        return Code(f"single({code.text})") if code.type in ("LIST", "TREE") else code

    def _set_field(self, base: str, steps: tuple[Step, ...], node: Expression) -> None:
        value = self.tree(node)
        if value.text == "None":
            self.line(f"discard({self.below(base, steps)})")
            return
        if value.type == "TREE" and value.text in TREES["COMPUTE"]:
            self.line(f"take({self.made(base, steps)}, {value.text})")
            return
        if value.type == "TREE" and base in self.trees and len(steps) == 1:
            key = self.plain_key(steps[0])
            if key is not None:
                self.line(f"take_folder({base}, {key!r}, {value.text})")
                return
        if value.type == "TREE":
            kept = self.names.temporary()
            # The source is taken as it was before the target was made in it.
            copied = f"copied({value.text})" if self._holds(node, base, steps) else value.text
            self.line(f"{kept} = {copied}")
            with self.source.block(f"if {kept} is None:"):
                self.source.line(f"discard({self.below(base, steps)})")
            with self.source.block("else:"):
                self.source.line(self._put("put_field", "take({}, {})", base, steps, kept))
            return
        if value.type in SCALARS and self._never_null(node):
            self.line(self._put("put_scalar", "{}.set_value({})", base, steps, value.text))
            return
        kept = self.names.temporary()
        self.line(f"{kept} = {value.text}")
        with self.source.block(f"if {kept} is None:"):
            self.source.line(f"discard({self.below(base, steps)})")
        with self.source.block("else:"):
            if value.type in SCALARS:
                self.source.line(self._put("put_scalar", "{}.set_value({})", base, steps, kept))
            else:
                self.source.line(f"assign({self.made(base, steps)}, {kept})")

    def _put(self, below: str, else_: str, base: str, steps: tuple[Step, ...], value: str) -> str:
        """A call that gives something to a field: by its name below its parent, or to the field itself."""
        parent = self.made_parent(base, steps)
        return (
            else_.format(self.made(base, steps), value)
            if parent is None
            else f"{below}({parent[0]}, {parent[1]!r}, {value})"
        )

    def _holds(self, node: Expression, base: str, steps: tuple[Step, ...]) -> bool:
        """Whether a path leads to a place above another one, as far as names tell."""
        if not isinstance(node, Path):
            return False
        there, way = self.base(node)
        keys = [self.plain_key(step) for step in way]
        return there == base and None not in keys and keys == [self.plain_key(step) for step in steps[: len(way)]]

    def _never_null(self, node: Expression) -> bool:
        return type(node).__name__ == "Literal"

    # --- control ---------------------------------------------------------------------------------------

    def do_If(self, node: If) -> None:
        conditions = [self.condition(condition) for condition, _ in node.branches]
        self.flush(self.source)
        for number, (condition, (_, body)) in enumerate(zip(conditions, node.branches, strict=True)):
            with self.source.block(f"{'el' if number else ''}if {condition}:"), self.names.block():
                self.statements(body)
        if node.otherwise:
            with self.source.block("else:"), self.names.block():
                self.statements(node.otherwise)

    def do_CaseStatement(self, node: CaseStatement) -> None:
        kept = self.names.temporary()
        if node.operand is not None:
            self.line(f"{kept} = {self.expression(node.operand).text}")
            tests = [f"equal({kept}, {self.expression(when).text})" for when, _ in node.branches]
        else:
            tests = [self.condition(when) for when, _ in node.branches]
        self.flush(self.source)
        for number, (test, (_, body)) in enumerate(zip(tests, node.branches, strict=True)):
            with self.source.block(f"{'el' if number else ''}if {test}:"), self.names.block():
                self.statements(body)
        if node.otherwise:
            with self.source.block("else:"), self.names.block():
                self.statements(node.otherwise)

    def _loop(self, head: str, label: str, body: tuple[Statement, ...], before: tuple[str, ...] = ()) -> None:
        # A LEAVE or ITERATE out of an inner loop travels as an exception, because Python cannot name loops.
        far = bool(label) and _jumps(body, label)
        if far:
            self.source.line("try:")
            self.source.depth += 1
        with self.source.block(head), self.names.block():
            self.source.line("run.steps -= 1")
            self.source.line("if run.steps < 0: run.spent()")
            for text in before:
                self.source.line(text)
            if far:
                self.source.line("try:")
                self.source.depth += 1
            self.loops.append(label)
            self.statements(body)
            self.loops.pop()
            if far:
                self.source.depth -= 1
                with self.source.block("except IterateLoop as jump:"):
                    self.source.line(f"if jump.label != {label!r}: raise")
        if far:
            self.source.depth -= 1
            with self.source.block("except LeaveLoop as jump:"):
                self.source.line(f"if jump.label != {label!r}: raise")

    def do_While(self, node: While) -> None:
        condition = self.condition(node.condition)
        self.flush(self.source)
        self._loop(f"while {condition}:", node.label, node.body)

    def do_Repeat(self, node: Repeat) -> None:
        until = self.condition(node.until)
        self.flush(self.source)
        started = self.names.temporary()
        self.source.line(f"{started} = False")
        self._loop("while True:", node.label, node.body, (f"if {started} and {until}: break", f"{started} = True"))

    def do_Loop(self, node: Loop) -> None:
        self._loop("while True:", node.label, node.body)

    def do_For(self, node: For) -> None:
        elements = self.elements(node.source)
        self.flush(self.source)
        with self.names.block():
            python = self.names.fresh(node.name, "r")
            self.names.declare(node.name, CompilerSymbol("reference", python, constant=True))
            self.source.line(f"moved_{python}, at_{python} = True, 0")
            self._loop(f"for {python} in list({elements}):", node.label, node.body)

    def do_Leave(self, node: Leave) -> None:
        if not self.loops or self.loops[-1] != node.label:
            self._far_jump("LeaveLoop", node.label, node)
        else:
            self.line("break")

    def do_Iterate(self, node: Iterate) -> None:
        if not self.loops or self.loops[-1] != node.label:
            self._far_jump("IterateLoop", node.label, node)
        else:
            self.line("continue")

    def _far_jump(self, exception: str, label: str, node: Statement) -> None:
        if label not in self.loops:
            raise self.unsupported(node, f"there is no loop or block {label} around this")
        self.line(f"raise {exception}({label!r})")

    def do_Begin(self, node: Begin) -> None:
        if node.atomic:
            with self.source.block("with run_atomic():"):
                self._begin(node)
        else:
            self._begin(node)

    def _begin(self, node: Begin) -> None:
        if node.label and _jumps(node.body, node.label, near=True):
            # A block that can be left is a loop of one turn.
            far = _jumps(node.body, node.label)
            if far:
                self.source.line("try:")
                self.source.depth += 1
            with self.source.block("for _ in (0,):"), self.names.block():
                self.loops.append(node.label)
                self.statements(node.body)
                self.loops.pop()
            if far:
                self.source.depth -= 1
                with self.source.block("except LeaveLoop as jump:"):
                    self.source.line(f"if jump.label != {node.label!r}: raise")
            return
        with self.names.block():
            self.statements(node.body)

    def do_Return(self, node: Return) -> None:
        if node.value is None:
            value = "None"
        elif self.routine is not None and self.routine.returns is not None:
            wanted = self.routine.returns.name
            if wanted in ("ROW", "REFERENCE", "LIST"):
                value = self.tree(node.value).text
            else:
                value = self.converted(self.scalar(node.value), wanted)
        else:
            value = self.scalar(node.value).text
        self.line(f"return {self.returned(value)}")

    def returned(self, value: str) -> str:
        return f"({', '.join([value, *self.outs])},)" if self.outs else value

    # --- calls --------------------------------------------------------------------------------------------

    def do_CallStatement(self, node: CallStatement) -> None:
        found = self.find_routine(node.name, function=False)
        if found is None:
            raise self.unsupported(node, f"there is no procedure {'.'.join(node.name)}")
        python, routine = found
        if node.schema is not None:
            raise self.unsupported(node, "CALL ... EXTERNAL SCHEMA is not supported: name the schema in EXTERNAL NAME")
        if len(node.arguments) != len(routine.parameters):
            problem = f"{routine.name} takes {len(routine.parameters)} arguments, not {len(node.arguments)}"
            raise self.unsupported(node, problem)
        arguments = self.arguments(routine.parameters, node.arguments)
        database = ""
        if routine.language == "DATABASE":
            database = f", source={self.databases.database_name(node.database)}"
        code = f"{python}({', '.join(['run', *arguments])}{database})"
        outs = [
            (parameter, argument)
            for parameter, argument in zip(routine.parameters, node.arguments, strict=True)
            if parameter.direction != "IN"
        ]
        if not outs and node.into is None:
            self.line(code)
            return
        kept = self.names.temporary()
        self.line(f"{kept} = {code}")
        for number, (parameter, argument) in enumerate(outs, 1):
            if parameter.type.name in ("REFERENCE", "ROW") and parameter.direction == "INOUT":
                self._give_back(argument, f"{kept}[{number}]", tree=True)
            else:
                self._give_back(argument, f"{kept}[{number}]")
        if node.into is not None:
            self._give_back(node.into, f"{kept}[0]" if outs else kept)

    def _give_back(self, target: Expression, value: str, *, tree: bool = False) -> None:
        if not isinstance(target, Path):
            raise self.unsupported(target, "what gives back a value has to be a variable or a field")
        scalar = self.is_scalar(target)
        if scalar is not None:
            if scalar.constant:
                raise self.unsupported(target, f"{target.steps[0].name} is a constant")
            self.source.line(f"{scalar.python} = {self.converted(Code(value), scalar.type)}")
            return
        symbol, rest = self.resolve(target)
        if tree and symbol.kind == "reference" and not rest:
            self.source.line(f"{symbol.python} = {value}")
            return
        if tree:
            return
        base, steps = self.base(target)
        self.flush(self.source)
        with self.source.block(f"if {value} is None:"):
            self.source.line(f"discard({self.below(base, steps)})")
        with self.source.block("else:"):
            self.source.line(f"assign({self.made(base, steps)}, {value})")

    # --- references and fields -----------------------------------------------------------------------------

    def _reference(self, name: str, node: Statement) -> CompilerSymbol:
        symbol = self.names.find(name)
        if symbol is None or symbol.kind != "reference":
            raise self.unsupported(node, f"{name} is no REFERENCE variable")
        return symbol

    def do_Move(self, node: Move) -> None:
        reference = self._reference(node.reference, node).python
        into = f"{reference}, moved_{reference}, at_{reference}"
        if node.direction == "TO":
            assert node.target is not None
            self.line(f"{into} = move_to({reference}, {self.element(node.target)})")
            return
        if node.direction == "PARENT":
            self.line(f"{into} = parent_of({reference})")
            return
        pattern = "None"
        if node.name is not None or node.namespace is not None or node.kinds:
            namespace = "None" if node.any_namespace else "''" if node.name is not None else "None"
            if node.namespace is not None:
                namespace = f"namespace_of({self.expression(node.namespace).text})"
            elif node.name is not None and not node.any_namespace:
                namespace = "None"
            name = "None" if node.name is None or node.any_name else self.expression(node.name).text
            pattern = f"({namespace}, {name}, {self.kinds(node.kinds)})"
        repeat = repr(node.repeat)
        if node.direction in ("NEXTSIBLING", "PREVIOUSSIBLING"):
            step = 1 if node.direction == "NEXTSIBLING" else -1
            self.line(f"{into} = sibling({reference}, at_{reference}, {step}, {pattern}, {repeat})")
        else:
            self.line(f"{into} = child_of({reference}, {node.direction == 'LASTCHILD'}, {pattern}, {repeat})")

    def do_Create(self, node: Create) -> None:
        clauses = self.create_clauses(node)
        base, steps = self.base(node.target)
        if node.where == "FIELD":
            code = f"created_field({self.made(base, steps)}, run{clauses})"
        else:
            target = self.below(base, steps)
            code = f"created_beside({target}, {node.where!r}, run{clauses})"
        if not node.alias:
            self.line(code)
            return
        symbol = self.names.find(node.alias)
        if symbol is None or symbol.kind != "reference":
            raise self.unsupported(node, f"AS {node.alias} names no REFERENCE variable")
        self.line(f"{symbol.python}, moved_{symbol.python}, at_{symbol.python} = {code}, True, 0")

    def create_clauses(self, node: Create) -> str:
        """Keyword arguments for what CREATE says of the new element."""
        parts = []
        if node.domain is not None:
            parts.append(f"domain={self.expression(node.domain).text}")
        if node.kinds:
            parts.append(f"kinds={self.kinds(node.kinds)}")
        if node.namespace is not None:
            parts.append(f"namespace={self.expression(node.namespace).text}")
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
                parts.append(f"{name}={self.expression(clause).text}")
        if node.source is not None:
            parts.append(f"source={self.tree(node.source).text}, copies=True")
        if node.repeat:
            parts.append(f"repeat={node.repeat!r}")
        return "".join(f", {part}" for part in parts)

    def do_DeleteField(self, node: DeleteField) -> None:
        base, steps = self.base(node.target)
        target = self.below(base, steps)
        self.line(f"discard({target})" if node.where == "FIELD" else f"discard(neighbour({target}, {node.where!r}))")

    def do_Attach(self, node: Attach) -> None:
        reference = self._reference(node.reference, node).python
        base, steps = self.base(node.target)
        self.line(f"attach({reference}, {self.made(base, steps)}, {node.where!r})")

    def do_Detach(self, node: Detach) -> None:
        self.line(f"detach({self._reference(node.reference, node).python})")

    # --- messages, exceptions, logging -----------------------------------------------------------------------

    def _clause(self, clause: Expression | None) -> str:
        return "None" if clause is None else self.expression(clause).text

    def do_Propagate(self, node: Propagate) -> None:
        trees = ", ".join(
            "None" if clause is None else self.tree(clause).text
            for clause in (node.environment, node.message, node.exception)
        )
        where = f"{self._clause(node.terminal)}, {self._clause(node.label)}"
        self.line(f"propagate(run, {where}, {trees}, finalize={node.finalize}, delete={node.delete})")

    def do_Throw(self, node: Throw) -> None:
        values = "".join(f"{self.expression(value).text}, " for value in node.values)
        clauses = ", ".join(self._clause(clause) for clause in (node.severity, node.catalog, node.message))
        self.line(f"throw({clauses}, ({values}))")

    def do_Resignal(self, node: Resignal) -> None:
        del node
        self.line("run.resignal()")

    def do_LogStatement(self, node: LogStatement) -> None:
        values = "".join(f"{self.expression(value).text}, " for value in node.values)
        clauses = ", ".join(self._clause(clause) for clause in (node.severity, node.catalog, node.message))
        self.line(f"log(run, {node.where!r}, {node.exception}, {clauses}, ({values}))")

    def do_Handler(self, node: Handler) -> None:
        raise self.unsupported(node, "a HANDLER here: declare it at the beginning of a block")


def _goes_on(body: Sequence[Statement]) -> bool:
    """Whether a block has a CONTINUE handler."""
    return any(isinstance(statement, Handler) and statement.action == "CONTINUE" for statement in body)


def _jumps(body: Sequence[Statement], label: str, inside: int = 0, *, near: bool = False) -> bool:
    """Whether statements jump to a label from inside of another loop, or with `near` from anywhere.

    A block with a CONTINUE handler is a loop to Python.
    """
    inside += _goes_on(body)
    return any(_mentions(statement, label, inside, near=near) for statement in body)


def _mentions(statement: Statement, label: str, inside: int, *, near: bool) -> bool:
    if isinstance(statement, Leave | Iterate):
        return statement.label == label and (inside > 0 or near)
    if isinstance(statement, Handler):
        return _mentions(statement.body, label, inside, near=near)
    bodies: list[Sequence[Statement]] = []
    if isinstance(statement, If | CaseStatement):
        bodies = [*(body for _, body in statement.branches), statement.otherwise or ()]
    elif isinstance(statement, Begin | While | Repeat | Loop | For):
        bodies = [statement.body]
        inside += not isinstance(statement, Begin) or bool(statement.label)
    return any(_jumps(body, label, inside, near=near) for body in bodies)
