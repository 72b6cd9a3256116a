# SPDX-License-Identifier: Apache-2.0
"""Statements, routines, modules and files from what the grammar finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lark import Token

from entrepot.esql.parsing.building import Wrong, kinds_of, place_of
from entrepot.esql.parsing.expressions import ExpressionBuilding, stream_clauses, text_of
from entrepot.esql.syntax import (
    Attach,
    Begin,
    CallStatement,
    CaseStatement,
    Create,
    DataType,
    Declare,
    DeleteField,
    DeleteFrom,
    Detach,
    Eval,
    Expression,
    Finish,
    For,
    Handler,
    If,
    Insert,
    Iterate,
    Leave,
    Literal,
    LogStatement,
    Loop,
    Module,
    Move,
    Passthru,
    PassthruStatement,
    Path,
    Propagate,
    Repeat,
    Resignal,
    Return,
    Routine,
    RoutineParameter,
    Set,
    SourceFile,
    Statement,
    Step,
    Throw,
    Update,
    While,
)


@dataclass(frozen=True, slots=True)
class _Facet:
    """TYPE, NAMESPACE, NAME, VALUE, DOMAIN, FROM, IDENTITY, REPEAT or PARSE with what follows it."""

    word: Token
    content: Any


class ControlBuilding(ExpressionBuilding):
    """What decides which statement comes next."""

    def body(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return statements

    def statements(self, *lines: Any) -> tuple[Statement, ...]:
        return tuple(line for line in lines if not isinstance(line, Token))

    def condition(self, expression: Any) -> Any:
        return Literal(place_of(expression), None) if isinstance(expression, Token) else expression

    def if_statement(self, word: Token, condition: Any, _: Token, then: Any, *parts: Any) -> If:
        *branches, otherwise, _end, _if = parts
        return If(place_of(word), ((condition, then), *branches), otherwise or ())

    def elseif(self, _: Token, condition: Any, __: Token, then: Any) -> tuple[Any, Any]:
        return condition, then

    def else_branch(self, _: Token, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return statements

    def case_statement(self, word: Token, operand: Any, *parts: Any) -> CaseStatement:
        *branches, otherwise, _end, _case = parts
        return CaseStatement(place_of(word), operand, tuple(branches), otherwise)

    def when(self, _: Token, condition: Any, __: Token, then: Any) -> tuple[Any, Any]:
        return condition, then

    def label(self, name: Token) -> Token:
        return name

    def while_statement(
        self, label: Any, word: Token, condition: Any, _: Token, body: Any, __: Token, ___: Token, end: Any
    ) -> Any:
        return _labelled(label, end, lambda name: While(place_of(word), condition, body, name))

    def repeat_statement(
        self, label: Any, word: Token, body: Any, _: Token, until: Any, __: Token, ___: Token, end: Any
    ) -> Any:
        return _labelled(label, end, lambda name: Repeat(place_of(word), body, until, name))

    def loop_statement(self, label: Any, word: Token, body: Any, _: Token, __: Token, end: Any) -> Any:
        return _labelled(label, end, lambda name: Loop(place_of(word), body, name))

    def for_statement(self, label: Any, word: Token, name: Token, *parts: Any) -> Any:
        _as, source, _do, body, _end, _for, end = parts
        return _labelled(label, end, lambda labelled: For(place_of(word), name.value, source, body, labelled))

    def begin_statement(self, label: Any, word: Token, atomic: Any, body: Any, _: Token, end: Any) -> Any:
        return _labelled(label, end, lambda name: Begin(place_of(word), body, bool(atomic), name))

    def atomicity(self, *words: Token) -> bool:
        return len(words) == 1

    def leave(self, word: Token, label: Token) -> Leave:
        return Leave(place_of(word), label.value)

    def iterate(self, word: Token, label: Token) -> Iterate:
        return Iterate(place_of(word), label.value)

    def return_statement(self, word: Token, value: Expression | None) -> Return:
        return Return(place_of(word), value)

    def qualified_name(self, *names: Token) -> tuple[str, ...]:
        return tuple(name.value for name in names)

    def call_statement(self, word: Token, name: tuple[str, ...], arguments: Any, *clauses: Any) -> Any:
        given = _once(word, clauses)
        if isinstance(given, Wrong):
            return given
        return CallStatement(place_of(word), name, arguments or (), **given)

    def call_into(self, word: Token, path: Path) -> tuple[Token, str, Any]:
        return word, "into", path

    def call_in(self, word: Token, path: Path) -> tuple[Token, str, Any]:
        return word, "database", path

    def call_schema(self, word: Token, _: Token, schema: Expression) -> tuple[Token, str, Any]:
        return word, "schema", schema

    def handler(self, word: Token, action: Token, *parts: Any) -> Handler:
        *states, body = parts[2:]
        return Handler(place_of(word), action.type, tuple(states), body)

    def sqlstate_is(self, _: Token, __: Token | None, text: Token) -> tuple[str, str, str]:
        return "=", text_of(text), ""

    def sqlstate_like(self, _: Token, __: Token, text: Token, ___: Any, escape: Token | None) -> tuple[str, str, str]:
        return "LIKE", text_of(text), "" if escape is None else text_of(escape)

    def throw(self, word: Token, _: Any, __: Token, *clauses: Any) -> Any:
        given = _once(word, clauses)
        return given if isinstance(given, Wrong) else Throw(place_of(word), **given)

    def log(self, word: Token, where: Token, *parts: Any) -> Any:
        if where.type == "USER":
            _trace, *parts_left = parts
        else:
            parts_left = list(parts)
        full, exception, *clauses = parts_left
        given = _once(word, tuple(clauses))
        if isinstance(given, Wrong):
            return given
        name = "USER TRACE" if where.type == "USER" else "EVENT"
        return LogStatement(place_of(word), name, full is not None, exception is not None, **given)

    def report_clause(self, word: Token, expression: Expression) -> tuple[Token, str, Any]:
        return word, word.type.lower(), expression

    def resignal(self, word: Token) -> Resignal:
        return Resignal(place_of(word))


def _labelled(label: Token | None, end: Token | None, build: Any) -> Any:
    if end is not None and (label is None or label.value != end.value):
        return Wrong(
            place_of(end), f"the label {end.value} at the end is not {label.value if label else 'at the beginning too'}"
        )
    return build("" if label is None else label.value)


def _once(statement: Token, clauses: tuple[Any, ...]) -> dict[str, Any] | Wrong:
    """Clauses by field name; a bare tuple of expressions is VALUES (...)."""
    given: dict[str, Any] = {}
    for clause in clauses:
        if len(clause) == 3 and isinstance(clause[0], Token):
            word, key, content = clause
        else:
            word, key, content = statement, "values", clause
        if key in given:
            return Wrong(place_of(word), f"{key.upper()} is given twice")
        given[key] = content
    return given


class StatementBuilding(ControlBuilding):
    """What changes variables, trees and tables."""

    def declare_variable(self, _: Token, names: Any, modifiers: Any, type_: Any, value: Any) -> Any:
        return _declare(names, modifiers, "variable", type_, value)

    def declare_reference(self, _: Token, names: Any, modifiers: Any, kind: Token, __: Any, path: Any) -> Any:
        return _declare(names, modifiers, "variable", DataType(place_of(kind), "REFERENCE"), path)

    def declare_namespace(self, _: Token, names: Any, modifiers: Any, __: Token, value: Any) -> Any:
        return _declare(names, modifiers, "namespace", None, value)

    def declare_name(self, _: Token, names: Any, modifiers: Any, __: Token, value: Any) -> Any:
        return _declare(names, modifiers, "name", None, value)

    def names(self, *names: Token) -> tuple[Token, ...]:
        return names

    def modifiers(self, *words: Token) -> tuple[Token, ...]:
        return words

    def set_statement(self, word: Token, path: Path, facet: Token | None, _: Token, value: Expression) -> Set:
        return Set(place_of(word), path, "" if facet is None else facet.type, value)

    # --- elements -----------------------------------------------------------------------------

    def facet(self, word: Token, content: Any) -> _Facet:
        return _Facet(word, content)

    def identity(self, word: Token, step: Step) -> _Facet:
        return _Facet(word, step)

    def repeat_facet(self, word: Token, *parts: Token) -> _Facet:
        # REPEAT alone repeats all there is.
        return _Facet(word, tuple(part.type for part in parts) or ("TYPE", "NAME"))

    def parse(self, word: Token, text: Expression, *parts: Any) -> _Facet:
        clauses = stream_clauses(parts, place_of(word))
        return _Facet(word, clauses if isinstance(clauses, Wrong) else {"parse": text, **clauses})

    def move_to(self, word: Token, reference: Token, _: Token, target: Path) -> Move:
        return Move(place_of(word), reference.value, "TO", target)

    def move_parent(self, word: Token, reference: Token, _: Token) -> Move:
        return Move(place_of(word), reference.value, "PARENT")

    def move_statement(self, word: Token, reference: Token, direction: Token, *facets: _Facet) -> Any:
        given = _facets(facets, ("TYPE", "NAMESPACE", "NAME", "IDENTITY", "REPEAT"), "MOVE", wild=True)
        if isinstance(given, Wrong):
            return given
        return Move(place_of(word), reference.value, direction.type, **given)

    def create_field(self, word: Token, _: Token, path: Path, alias: Any, *facets: _Facet) -> Any:
        return _create(word, "FIELD", path, alias, facets)

    def create_statement(self, word: Token, where: Token, _: Token, path: Path, alias: Any, *facets: _Facet) -> Any:
        return _create(word, where.type, path, alias, facets)

    def delete_field(self, word: Token, _: Token, path: Path) -> DeleteField:
        return DeleteField(place_of(word), "FIELD", path)

    def delete_sibling(self, word: Token, where: Token, _: Token, path: Path) -> DeleteField:
        return DeleteField(place_of(word), where.type, path)

    def attach(self, word: Token, reference: Token, _: Token, path: Path, __: Token, where: Token) -> Attach:
        return Attach(place_of(word), reference.value, path, where.type)

    def detach(self, word: Token, reference: Token) -> Detach:
        return Detach(place_of(word), reference.value)

    # --- flows --------------------------------------------------------------------------------

    def propagate(self, word: Token, destination: Any, *clauses: Any) -> Any:
        given = _once(word, clauses if destination is None else (destination, *clauses))
        return given if isinstance(given, Wrong) else Propagate(place_of(word), **given)

    def destination(self, word: Token, kind: Token, expression: Expression) -> tuple[Token, str, Any]:
        return word, kind.type.lower(), expression

    def propagate_tree(self, word: Token, expression: Expression) -> tuple[Token, str, Any]:
        return word, word.type.lower(), expression

    def propagate_choice(self, word: Token, choice: Token) -> tuple[Token, str, Any]:
        return word, word.type.lower(), choice.type == "DEFAULT"

    def eval_statement(self, word: Token, text: Expression) -> Eval:
        return Eval(place_of(word), text)

    # --- tables -------------------------------------------------------------------------------

    def insert_statement(self, word: Token, _: Token, path: Path, columns: Any, *parts: Any) -> Any:
        values = parts[1]
        if columns and len(columns) != len(values):
            return Wrong(place_of(word), f"INSERT names {len(columns)} columns and gives {len(values)} values")
        return Insert(place_of(word), path, columns or (), values)

    def columns(self, *names: Token) -> tuple[str, ...]:
        return tuple(name.value for name in names)

    def update_statement(self, word: Token, path: Path, alias: Any, _: Token, *parts: Any) -> Update:
        *settings, where = parts
        return Update(place_of(word), path, alias or "", tuple(settings), where)

    def setting(self, name: Token, _: Token, expression: Expression) -> tuple[str, Expression]:
        return name.value, expression

    def delete_from(self, word: Token, _: Token, path: Path, alias: Any, where: Any) -> DeleteFrom:
        return DeleteFrom(place_of(word), path, alias or "", where)

    def passthru_statement(self, word: Token, passthru: Passthru, source: Any, values: Any) -> Any:
        if (source is not None and passthru.source is not None) or (values is not None and passthru.arguments):
            return Wrong(place_of(word), "TO and VALUES stand within the brackets or behind them, not both")
        merged = replace(passthru, source=passthru.source or source, arguments=passthru.arguments or values or ())
        return PassthruStatement(place_of(word), merged)

    def passthru_bare(self, word: Token, text: Expression, source: Any, values: Any) -> PassthruStatement:
        return PassthruStatement(place_of(word), Passthru(text.place, text, source, values or ()))

    def finish(self, word: Token, path: Path | None) -> Finish:
        return Finish(place_of(word), word.type == "COMMIT", path)


def _declare(names: Any, modifiers: tuple[Token, ...], kind: str, type_: Any, value: Any) -> Any:
    if isinstance(type_, Wrong):
        return type_
    given = [modifier.type for modifier in modifiers]
    if len(given) != len(set(given)) or {"SHARED", "EXTERNAL"} <= set(given):
        return Wrong(place_of(modifiers[-1]), f"{' and '.join(given)} do not go together")
    scope = next((modifier for modifier in given if modifier != "CONSTANT"), "")
    constant = "CONSTANT" in given or scope == "EXTERNAL" or kind != "variable"
    return Declare(place_of(names[0]), tuple(name.value for name in names), scope, constant, kind, type_, value)


def _create(word: Token, where: str, path: Path, alias: str | None, facets: tuple[_Facet, ...]) -> Any:
    allowed = ("TYPE", "NAMESPACE", "NAME", "VALUE", "DOMAIN", "FROM", "IDENTITY", "REPEAT", "PARSE")
    given = _facets(facets, allowed, "CREATE", wild=False)
    return given if isinstance(given, Wrong) else Create(place_of(word), where, path, alias or "", **given)


_FIELD_OF = {"TYPE": "kinds", "FROM": "source"}


def _facets(facets: tuple[_Facet, ...], allowed: tuple[str, ...], statement: str, *, wild: bool) -> Any:
    """Clauses as fields of Move or Create."""
    given: dict[str, Any] = {}
    for facet in facets:
        word, content = facet.word, facet.content
        kind = word.type
        if kind not in allowed:
            return Wrong(place_of(word), f"{statement} has no {kind}")
        if isinstance(content, Wrong):
            return content
        if kind == "PARSE":
            found = content
        elif kind == "IDENTITY":
            found = _identity(content, wild=wild)
        elif isinstance(content, Token):
            if kind == "TYPE" or not wild:
                return Wrong(place_of(content), f"{kind} takes no * here")
            found = {f"any_{kind.lower()}": True}
        else:
            found = {_FIELD_OF.get(kind, kind.lower()): kinds_of(content) if kind == "TYPE" else content}
        if isinstance(found, Wrong):
            return found
        twice = given.keys() & found.keys()
        if twice:
            return Wrong(place_of(word), f"{kind} says again what was said before")
        given |= found
    return given


def _identity(step: Step, *, wild: bool) -> dict[str, Any] | Wrong:
    """IDENTITY (XMLNSC.Field)ns:Name as the clauses it stands for."""
    place = step.place
    if step.index is not None:
        return Wrong(place, "IDENTITY takes no index")
    if not wild and (step.any_name or step.any_namespace):
        return Wrong(place, "IDENTITY takes no * in CREATE")
    found: dict[str, Any] = {}
    if step.kinds:
        found["kinds"] = step.kinds
    if step.any_namespace:
        found["any_namespace"] = True
    elif step.namespace_expression is not None:
        found["namespace"] = step.namespace_expression
    elif step.namespace is not None:
        found["namespace"] = Path(place, (Step(place, step.namespace),))
    elif step.no_namespace:
        found["namespace"] = Literal(place, "")
    if step.any_name:
        found["any_name"] = True
    elif step.name_expression is not None:
        found["name"] = step.name_expression
    elif step.name is not None:
        found["name"] = Literal(place, step.name)
    return found


class FileBuilding(StatementBuilding):
    """Routines, modules, files: what a parse begins with."""

    def schema_name(self, *names: Token) -> tuple[str, ...]:
        return tuple(name.value for name in names)

    def schema_clause(self, word: Token, _: Token, name: tuple[str, ...]) -> tuple[Token, Any]:
        return word, name

    def path_clause(self, word: Token, *names: tuple[str, ...]) -> tuple[Token, Any]:
        return word, names

    def nullability(self, *words: Token) -> None:
        # Every value may be NULL here.
        del words

    def parameter_type(self, type_: Any) -> Any:
        return type_

    def parameter(self, direction: Any, name: Token, constant: Any, type_: Any, _: Any) -> Any:
        if isinstance(type_, Wrong):
            return type_
        fixed = constant is not None
        if isinstance(type_, Token):
            # NAMESPACE and NAME are constants of type CHARACTER, says the manual.
            type_, fixed = DataType(place_of(type_), "CHARACTER"), True
        return RoutineParameter(place_of(name), name.value, "IN" if direction is None else direction.type, type_, fixed)

    def parameters(self, *parameters: RoutineParameter) -> tuple[RoutineParameter, ...]:
        return parameters

    def routine_clauses(self, *clauses: Any) -> dict[str, Any] | Wrong:
        found: dict[str, Any] = {}
        for word, key, content in clauses:
            if isinstance(content, Wrong):
                return content
            if key in found:
                return Wrong(place_of(word), f"{word.type} is given twice")
            found[key] = content
        return found

    def returns(self, word: Token, type_: Any, _: Any) -> tuple[Token, str, Any]:
        return word, "returns", type_

    def language(self, word: Token, name: Token) -> tuple[Token, str, Any]:
        language = {"NET": "CLR"}.get(name.value.upper(), name.value.upper())
        if language not in ("ESQL", "JAVA", "DATABASE", "CLR"):
            return word, "language", Wrong(place_of(name), f"there is no LANGUAGE {name.value}")
        return word, "language", language

    def result_sets(self, word: Token, _: Token, __: Token, count: Token) -> tuple[Token, str, Any]:
        return word, "result_sets", count.value

    def external(self, word: Token, _: Token, text: Token) -> tuple[Token, str, Any]:
        return word, "external", text_of(text)

    def external_detail(self, word: Token, text: Token) -> tuple[Token, str, Any]:
        return word, word.type, text_of(text)

    def routine(self, _: Token, kind: Token, name: Token, parameters: Any, clauses: Any, body: Any) -> Any:
        if isinstance(clauses, Wrong):
            return clauses
        external, language = clauses.get("external", ""), clauses.get("language", "")
        if (body is None) == (not external):
            problem = "has neither a body nor an EXTERNAL NAME" if body is None else "has a body and an EXTERNAL NAME"
            return Wrong(place_of(name), f"{name.value} {problem}")
        return Routine(
            place_of(name),
            name.value,
            parameters or (),
            clauses.get("returns"),
            kind.type == "FUNCTION",
            language or ("DATABASE" if external else "ESQL"),
            body,
            external,
        )

    def module(self, word: Token, kind: Any, _: Token, name: Token, *parts: Any) -> Any:
        if kind is None:
            return Wrong(place_of(word), "say which module: CREATE COMPUTE MODULE, FILTER or DATABASE")
        declarations, routines = _sorted(parts[:-2])
        return Module(place_of(name), kind.type, name.value, declarations, routines)

    def file(self, *items: Any) -> SourceFile:
        schema: Any = ()
        path: Any = ()
        rest: list[Any] = []
        wrong: list[Any] = []
        for item in items:
            if isinstance(item, tuple):
                word, content = item
                if rest or (schema if word.type == "BROKER" else path):
                    wrong.append(Wrong(place_of(word), f"{word.type} stands once, at the beginning of a file"))
                elif word.type == "BROKER":
                    schema = content
                else:
                    path = content
            else:
                rest.append(item)
        declarations, routines = _sorted(tuple(item for item in rest if not isinstance(item, Module)))
        modules = tuple(item for item in rest if isinstance(item, Module))
        return SourceFile("", "", schema, path, (*declarations, *wrong), routines, modules)


def _sorted(parts: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Declarations, with what is wrong among them, and routines."""
    return (
        tuple(part for part in parts if isinstance(part, Declare | Wrong)),
        tuple(part for part in parts if isinstance(part, Routine)),
    )
