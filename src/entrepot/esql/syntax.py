# SPDX-License-Identifier: Apache-2.0
"""An ESQL program as a tree: what the parser gives and the checker and the compiler read.

Names keep the case of the source; keywords do not appear. Every node knows
its place, so that an error can point at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SourcePlace:
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    place: SourcePlace


# --- types ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataType(SyntaxNode):
    name: str
    """In capitals and unabbreviated: CHARACTER, INTEGER, DECIMAL, FLOAT, BOOLEAN, BLOB, BIT, DATE, TIME, GMTTIME,
    TIMESTAMP, GMTTIMESTAMP, INTERVAL, REFERENCE, ROW, LIST."""
    precision: int | None = None
    scale: int | None = None
    qualifier: str = ""
    """Of an INTERVAL: DAY TO SECOND."""


# --- expressions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal(SyntaxNode):
    value: Any
    """As models/tree.py says; None is NULL, and `unknown` below tells UNKNOWN from it."""
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class KindName(SyntaxNode):
    """(XML.Attribute), (XMLNSC.Field), (NameValue): a kind by name, with the domain in front where there is one."""

    domain: str
    name: str


@dataclass(frozen=True, slots=True)
class Index(SyntaxNode):
    """What stands in square brackets."""

    form: str
    """number: [expression]; from_last: [<] or [<expression]; from_first: [>] or [>expression]; all: []."""
    expression: Expression | None = None


@dataclass(frozen=True, slots=True)
class Step(SyntaxNode):
    """One step of a field reference: (kind)namespace:name[index], each part optional.

    Exactly one of these is the name: `name` (an identifier), `name_expression`
    ({...}), `any_name` (*), or none of them for a step that is only a (kind)
    or an [index].
    """

    name: str | None = None
    name_expression: Expression | None = None
    any_name: bool = False
    quoted: bool = False
    """The name was written in double quotes."""
    namespace: str | None = None
    """An identifier before the colon: a NAMESPACE constant's or character variable's name."""
    namespace_expression: Expression | None = None
    """{...} before the colon."""
    any_namespace: bool = False
    """*: before the name."""
    no_namespace: bool = False
    """A colon with nothing before it."""
    kinds: tuple[Expression | KindName, ...] = ()
    """In round brackets: names joined by +, or numbers and other expressions."""
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Path(SyntaxNode):
    """A field reference, or a plain variable when it has one step with nothing but a name.

    The first step is a correlation name (Root, InputRoot, Environment, Database, ...),
    a reference variable, a scalar variable, a constant or a property; the checker tells.
    """

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Unary(SyntaxNode):
    operator: str
    """- + NOT"""
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(SyntaxNode):
    operator: str
    """+ - * / || = <> < <= > >= AND OR"""
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Between(SyntaxNode):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class Among(SyntaxNode):
    """x IN (a, b, c)."""

    operand: Expression
    candidates: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(SyntaxNode):
    operand: Expression
    pattern: Expression
    escape: Expression | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Is(SyntaxNode):
    """x IS [NOT] NULL | TRUE | FALSE | UNKNOWN | NUM | NAN | INF | +INF | -INF."""

    operand: Expression
    what: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Case(SyntaxNode):
    """CASE [operand] WHEN a THEN b ... [ELSE c] END."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class Call(SyntaxNode):
    """f(a, b): a function of ours or of the program's.

    Functions with a syntax of their own come as the same thing: TRIM(LEADING '0' FROM x) is
    Call(("TRIM",), (Literal("LEADING"), Literal("0"), x)), and its `form` tells what was written.
    """

    name: tuple[str, ...]
    """Schema parts and the name; in the case of the source."""
    arguments: tuple[Expression, ...]
    form: str = ""
    """TRIM: "" | "FROM" ; SUBSTRING: "FROM" | "FROM FOR" | "BEFORE" | "AFTER"; POSITION: "IN" | "IN FROM" |
    "IN FROM REPEAT"; OVERLAY: "PLACING FROM" | "PLACING FROM FOR"; EXTRACT: "FROM" with the field's name as
    first argument; ROUND: "" | "MODE" with the mode's name as last argument; RAND and others: ""."""


@dataclass(frozen=True, slots=True)
class Cast(SyntaxNode):
    operand: tuple[Expression, ...]
    """One; more when parts make a date: CAST(2003, 12, 24 AS DATE)."""
    type: DataType
    ccsid: Expression | None = None
    encoding: Expression | None = None
    format: Expression | None = None
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class BitStream(SyntaxNode):
    """ASBITSTREAM(path [OPTIONS o] [ENCODING e] [CCSID c] [SET s] [TYPE t] [FORMAT f])."""

    path: Path
    options: Expression | None = None
    encoding: Expression | None = None
    ccsid: Expression | None = None
    set: Expression | None = None
    type: Expression | None = None
    format: Expression | None = None


@dataclass(frozen=True, slots=True)
class IntervalOf(SyntaxNode):
    """(a - b) DAY TO SECOND: the difference of two dates or times as an INTERVAL."""

    operand: Expression
    qualifier: str


@dataclass(frozen=True, slots=True)
class Passthru(SyntaxNode):
    """PASSTHRU(text [TO Database.x] [VALUES (...)]) or PASSTHRU(text, a, b)."""

    text: Expression
    source: Path | None
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Selected(SyntaxNode):
    """One thing of a select list: an expression and where it goes."""

    expression: Expression
    alias: tuple[Step, ...] = ()
    """AS Customer.Name, AS (XML.Attribute)Type, AS {name}[1]; empty for none."""


@dataclass(frozen=True, slots=True)
class FromSource(SyntaxNode):
    """One thing of a FROM clause."""

    path: Path
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Select(SyntaxNode):
    """SELECT [ITEM] ... FROM ... [WHERE ...]."""

    form: str
    """list, item, all (SELECT *) or aggregate (COUNT, SUM, MIN, MAX of one expression)."""
    selected: tuple[Selected, ...]
    sources: tuple[FromSource, ...]
    where: Expression | None = None
    aggregate: str = ""
    """COUNT, SUM, MIN, MAX; COUNT(*) has no `selected`. An aggregate may carry an alias."""


@dataclass(frozen=True, slots=True)
class The(SyntaxNode):
    """THE(SELECT ...): the first of a list."""

    select: Expression


@dataclass(frozen=True, slots=True)
class RowOf(SyntaxNode):
    """ROW(a AS x, b AS y)."""

    selected: tuple[Selected, ...]


@dataclass(frozen=True, slots=True)
class ListOf(SyntaxNode):
    """LIST{a, b}."""

    items: tuple[Expression, ...]


Expression = (
    Literal
    | Path
    | Unary
    | Binary
    | Between
    | Among
    | Like
    | Is
    | Case
    | Call
    | Cast
    | BitStream
    | IntervalOf
    | Passthru
    | Select
    | The
    | RowOf
    | ListOf
)


# --- statements -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declare(SyntaxNode):
    names: tuple[str, ...]
    scope: str
    """"" | SHARED | EXTERNAL"""
    constant: bool
    kind: str
    """variable, namespace, name"""
    type: DataType | None
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Set(SyntaxNode):
    target: Path
    facet: str
    """VALUE (the default), NAME, NAMESPACE, TYPE; "" when none was written, which also deletes on NULL."""
    value: Expression


@dataclass(frozen=True, slots=True)
class If(SyntaxNode):
    branches: tuple[tuple[Expression, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class CaseStatement(SyntaxNode):
    operand: Expression | None
    branches: tuple[tuple[Expression, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...] | None


@dataclass(frozen=True, slots=True)
class While(SyntaxNode):
    condition: Expression
    body: tuple[Statement, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Repeat(SyntaxNode):
    body: tuple[Statement, ...]
    until: Expression
    label: str = ""


@dataclass(frozen=True, slots=True)
class Loop(SyntaxNode):
    body: tuple[Statement, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class For(SyntaxNode):
    """FOR name AS path[] DO ... END FOR."""

    name: str
    source: Path
    body: tuple[Statement, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Leave(SyntaxNode):
    label: str


@dataclass(frozen=True, slots=True)
class Iterate(SyntaxNode):
    label: str


@dataclass(frozen=True, slots=True)
class Begin(SyntaxNode):
    body: tuple[Statement, ...]
    atomic: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Return(SyntaxNode):
    value: Expression | None


@dataclass(frozen=True, slots=True)
class CallStatement(SyntaxNode):
    """CALL name(arguments) [INTO target] [IN Database.x] [EXTERNAL SCHEMA s]."""

    name: tuple[str, ...]
    arguments: tuple[Expression, ...]
    into: Path | None = None
    database: Path | None = None
    schema: Expression | None = None


@dataclass(frozen=True, slots=True)
class Move(SyntaxNode):
    """MOVE ref TO path | PARENT | PREVIOUSSIBLING | NEXTSIBLING | FIRSTCHILD | LASTCHILD
    [TYPE t] [NAMESPACE n] [NAME x] [REPEAT TYPE NAME]."""

    reference: str
    direction: str
    """TO, PARENT, PREVIOUSSIBLING, NEXTSIBLING, FIRSTCHILD, LASTCHILD"""
    target: Path | None = None
    kinds: tuple[Expression | KindName, ...] = ()
    namespace: Expression | None = None
    any_namespace: bool = False
    name: Expression | None = None
    any_name: bool = False
    repeat: tuple[str, ...] = ()
    """TYPE, NAME or both: as the place it leaves."""


@dataclass(frozen=True, slots=True)
class Create(SyntaxNode):
    """CREATE FIELD path | PREVIOUSSIBLING|NEXTSIBLING|FIRSTCHILD|LASTCHILD OF path, and what it is to be."""

    where: str
    """FIELD, PREVIOUSSIBLING, NEXTSIBLING, FIRSTCHILD, LASTCHILD"""
    target: Path
    alias: str = ""
    domain: Expression | None = None
    kinds: tuple[Expression | KindName, ...] = ()
    namespace: Expression | None = None
    name: Expression | None = None
    value: Expression | None = None
    repeat: tuple[str, ...] = ()
    source: Expression | None = None
    """FROM path: a copy of that tree."""
    parse: Expression | None = None
    """PARSE(bytes ...): the tree of these bytes, with the clauses below."""
    options: Expression | None = None
    encoding: Expression | None = None
    ccsid: Expression | None = None
    set: Expression | None = None
    type: Expression | None = None
    format: Expression | None = None


@dataclass(frozen=True, slots=True)
class DeleteField(SyntaxNode):
    where: str
    """FIELD, PREVIOUSSIBLING, NEXTSIBLING, FIRSTCHILD, LASTCHILD (of the path)"""
    target: Path


@dataclass(frozen=True, slots=True)
class Attach(SyntaxNode):
    reference: str
    target: Path
    where: str
    """PREVIOUSSIBLING, NEXTSIBLING, FIRSTCHILD, LASTCHILD"""


@dataclass(frozen=True, slots=True)
class Detach(SyntaxNode):
    reference: str


@dataclass(frozen=True, slots=True)
class Propagate(SyntaxNode):
    terminal: Expression | None = None
    label: Expression | None = None
    environment: Expression | None = None
    message: Expression | None = None
    exception: Expression | None = None
    finalize: bool = True
    delete: bool = True


@dataclass(frozen=True, slots=True)
class Throw(SyntaxNode):
    severity: Expression | None = None
    catalog: Expression | None = None
    message: Expression | None = None
    values: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Resignal(SyntaxNode):
    pass


@dataclass(frozen=True, slots=True)
class LogStatement(SyntaxNode):
    """LOG EVENT | USER TRACE [FULL] [EXCEPTION] [SEVERITY s] [CATALOG c] [MESSAGE m] [VALUES (...)]."""

    where: str
    """EVENT, USER TRACE"""
    full: bool = False
    exception: bool = False
    severity: Expression | None = None
    catalog: Expression | None = None
    message: Expression | None = None
    values: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Handler(SyntaxNode):
    """DECLARE CONTINUE|EXIT HANDLER FOR SQLSTATE ... statement."""

    action: str
    """CONTINUE, EXIT"""
    states: tuple[tuple[str, str, str], ...]
    """("=", value, "") or ("LIKE", pattern, escape); any one of them."""
    body: Statement


@dataclass(frozen=True, slots=True)
class Eval(SyntaxNode):
    """EVAL('SET ...'), as a statement."""

    text: Expression


@dataclass(frozen=True, slots=True)
class Insert(SyntaxNode):
    target: Path
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Update(SyntaxNode):
    target: Path
    alias: str
    settings: tuple[tuple[str, Expression], ...]
    where: Expression | None


@dataclass(frozen=True, slots=True)
class DeleteFrom(SyntaxNode):
    target: Path
    alias: str
    where: Expression | None


@dataclass(frozen=True, slots=True)
class PassthruStatement(SyntaxNode):
    passthru: Passthru


@dataclass(frozen=True, slots=True)
class Finish(SyntaxNode):
    """COMMIT or ROLLBACK [Database.x]."""

    commit: bool
    database: Path | None = None


Statement = (
    Declare
    | Set
    | If
    | CaseStatement
    | While
    | Repeat
    | Loop
    | For
    | Leave
    | Iterate
    | Begin
    | Return
    | CallStatement
    | Move
    | Create
    | DeleteField
    | Attach
    | Detach
    | Propagate
    | Throw
    | Resignal
    | LogStatement
    | Handler
    | Eval
    | Insert
    | Update
    | DeleteFrom
    | PassthruStatement
    | Finish
)


# --- routines, modules, files ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoutineParameter(SyntaxNode):
    name: str
    direction: str
    """IN, OUT, INOUT"""
    type: DataType
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Routine(SyntaxNode):
    """CREATE FUNCTION or PROCEDURE."""

    name: str
    parameters: tuple[RoutineParameter, ...]
    returns: DataType | None
    is_function: bool
    language: str
    """ESQL, JAVA (a Python function for us), DATABASE, CLR"""
    body: Statement | None
    external: str = ""
    """EXTERNAL NAME of what is not written in ESQL."""


@dataclass(frozen=True, slots=True)
class Module(SyntaxNode):
    kind: str
    """COMPUTE, FILTER, DATABASE, DATABASEEVENT"""
    name: str
    declarations: tuple[Declare, ...]
    routines: tuple[Routine, ...]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One .esql file."""

    file: str
    text: str
    schema: tuple[str, ...]
    """BROKER SCHEMA a.b; empty for the default one."""
    path: tuple[tuple[str, ...], ...]
    """PATH c.d, e: the schemas where names are looked up too."""
    declarations: tuple[Declare, ...]
    routines: tuple[Routine, ...]
    modules: tuple[Module, ...]


UNABBREVIATED = {"CHAR": "CHARACTER", "INT": "INTEGER", "DEC": "DECIMAL", "BOOL": "BOOLEAN"}
