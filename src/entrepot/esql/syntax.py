# SPDX-License-Identifier: Apache-2.0
"""An ESQL program as a tree: what the parser gives and the checker and the compiler read.

Names keep the case of the source; keywords do not appear. Every node knows
its place, so that whoever finds something wrong can point at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Node:
    place: Place


# --- types ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataType(Node):
    name: str
    """In capitals and unabbreviated: CHARACTER, INTEGER, DECIMAL, FLOAT, BOOLEAN, BLOB, BIT, DATE, TIME, GMTTIME,
    TIMESTAMP, GMTTIMESTAMP, INTERVAL, REFERENCE, ROW, LIST."""
    precision: int | None = None
    scale: int | None = None
    qualifier: str = ""
    """Of an INTERVAL: DAY TO SECOND."""


# --- expressions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: Any
    """As models/tree.py says; None is NULL, and `unknown` below tells UNKNOWN from it."""
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class KindName(Node):
    """(XML.Attribute), (XMLNSC.Field), (NameValue): a kind by name, with the domain in front where there is one."""

    domain: str
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """What stands in square brackets."""

    form: str
    """number: [expression]; from_last: [<] or [<expression]; from_first: [>] or [>expression]; all: []."""
    expression: Expression | None = None


@dataclass(frozen=True, slots=True)
class Step(Node):
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
class Path(Node):
    """A field reference, or a plain variable when it has one step with nothing but a name.

    The first step is a correlation name (Root, InputRoot, Environment, Database, ...),
    a reference variable, a scalar variable, a constant or a property; the checker tells.
    """

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    operator: str
    """- + NOT"""
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    operator: str
    """+ - * / || = <> < <= > >= AND OR"""
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Between(Node):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class Among(Node):
    """x IN (a, b, c)."""

    operand: Expression
    candidates: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Node):
    operand: Expression
    pattern: Expression
    escape: Expression | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Is(Node):
    """x IS [NOT] NULL | TRUE | FALSE | UNKNOWN | NUM | NAN | INF | +INF | -INF."""

    operand: Expression
    what: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Case(Node):
    """CASE [operand] WHEN a THEN b ... [ELSE c] END."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class Call(Node):
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
class Cast(Node):
    operand: tuple[Expression, ...]
    """One; more when parts make a date: CAST(2003, 12, 24 AS DATE)."""
    type: DataType
    ccsid: Expression | None = None
    encoding: Expression | None = None
    format: Expression | None = None
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class BitStream(Node):
    """ASBITSTREAM(path [OPTIONS o] [ENCODING e] [CCSID c] [SET s] [TYPE t] [FORMAT f])."""

    path: Path
    options: Expression | None = None
    encoding: Expression | None = None
    ccsid: Expression | None = None
    set: Expression | None = None
    type: Expression | None = None
    format: Expression | None = None


@dataclass(frozen=True, slots=True)
class IntervalOf(Node):
    """(a - b) DAY TO SECOND: the difference of two dates or times as an INTERVAL."""

    operand: Expression
    qualifier: str


@dataclass(frozen=True, slots=True)
class Passthru(Node):
    """PASSTHRU(text [TO Database.x] [VALUES (...)]) or PASSTHRU(text, a, b)."""

    text: Expression
    source: Path | None
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Selected(Node):
    """One thing of a select list: an expression and where it goes."""

    expression: Expression
    alias: tuple[Step, ...] = ()
    """AS Customer.Name, AS (XML.Attribute)Type, AS {name}[1]; empty for none."""


@dataclass(frozen=True, slots=True)
class Source(Node):
    """One thing of a FROM clause."""

    path: Path
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Select(Node):
    """SELECT [ITEM] ... FROM ... [WHERE ...]."""

    form: str
    """list, item, all (SELECT *) or aggregate (COUNT, SUM, MIN, MAX of one expression)."""
    selected: tuple[Selected, ...]
    sources: tuple[Source, ...]
    where: Expression | None = None
    aggregate: str = ""
    """COUNT, SUM, MIN, MAX; COUNT(*) has no `selected`. An aggregate may carry an alias."""


@dataclass(frozen=True, slots=True)
class The(Node):
    """THE(SELECT ...): the first of a list."""

    select: Expression


@dataclass(frozen=True, slots=True)
class RowOf(Node):
    """ROW(a AS x, b AS y)."""

    selected: tuple[Selected, ...]


@dataclass(frozen=True, slots=True)
class ListOf(Node):
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
class Declare(Node):
    names: tuple[str, ...]
    scope: str
    """"" | SHARED | EXTERNAL"""
    constant: bool
    kind: str
    """variable, namespace, name"""
    type: DataType | None
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Set(Node):
    target: Path
    facet: str
    """VALUE (the default), NAME, NAMESPACE, TYPE; "" when none was written, which also deletes on NULL."""
    value: Expression


@dataclass(frozen=True, slots=True)
class If(Node):
    branches: tuple[tuple[Expression, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class CaseStatement(Node):
    operand: Expression | None
    branches: tuple[tuple[Expression, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...] | None


@dataclass(frozen=True, slots=True)
class While(Node):
    condition: Expression
    body: tuple[Statement, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    body: tuple[Statement, ...]
    until: Expression
    label: str = ""


@dataclass(frozen=True, slots=True)
class Loop(Node):
    body: tuple[Statement, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class For(Node):
    """FOR name AS path[] DO ... END FOR."""

    name: str
    source: Path
    body: tuple[Statement, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Leave(Node):
    label: str


@dataclass(frozen=True, slots=True)
class Iterate(Node):
    label: str


@dataclass(frozen=True, slots=True)
class Begin(Node):
    body: tuple[Statement, ...]
    atomic: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Return(Node):
    value: Expression | None


@dataclass(frozen=True, slots=True)
class CallStatement(Node):
    """CALL name(arguments) [INTO target] [IN Database.x] [EXTERNAL SCHEMA s]."""

    name: tuple[str, ...]
    arguments: tuple[Expression, ...]
    into: Path | None = None
    database: Path | None = None
    schema: Expression | None = None


@dataclass(frozen=True, slots=True)
class Move(Node):
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
class Create(Node):
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
class DeleteField(Node):
    where: str
    """FIELD, PREVIOUSSIBLING, NEXTSIBLING, FIRSTCHILD, LASTCHILD (of the path)"""
    target: Path


@dataclass(frozen=True, slots=True)
class Attach(Node):
    reference: str
    target: Path
    where: str
    """PREVIOUSSIBLING, NEXTSIBLING, FIRSTCHILD, LASTCHILD"""


@dataclass(frozen=True, slots=True)
class Detach(Node):
    reference: str


@dataclass(frozen=True, slots=True)
class Propagate(Node):
    terminal: Expression | None = None
    label: Expression | None = None
    environment: Expression | None = None
    message: Expression | None = None
    exception: Expression | None = None
    finalize: bool = True
    delete: bool = True


@dataclass(frozen=True, slots=True)
class Throw(Node):
    severity: Expression | None = None
    catalog: Expression | None = None
    message: Expression | None = None
    values: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Resignal(Node):
    pass


@dataclass(frozen=True, slots=True)
class LogStatement(Node):
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
class Handler(Node):
    """DECLARE CONTINUE|EXIT HANDLER FOR SQLSTATE ... statement."""

    action: str
    """CONTINUE, EXIT"""
    states: tuple[tuple[str, str, str], ...]
    """("=", value, "") or ("LIKE", pattern, escape); any one of them."""
    body: Statement


@dataclass(frozen=True, slots=True)
class Eval(Node):
    """EVAL('SET ...'), as a statement."""

    text: Expression


@dataclass(frozen=True, slots=True)
class Insert(Node):
    target: Path
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Update(Node):
    target: Path
    alias: str
    settings: tuple[tuple[str, Expression], ...]
    where: Expression | None


@dataclass(frozen=True, slots=True)
class DeleteFrom(Node):
    target: Path
    alias: str
    where: Expression | None


@dataclass(frozen=True, slots=True)
class PassthruStatement(Node):
    passthru: Passthru


@dataclass(frozen=True, slots=True)
class Finish(Node):
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
class Parameter(Node):
    name: str
    direction: str
    """IN, OUT, INOUT"""
    type: DataType
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Routine(Node):
    """CREATE FUNCTION or PROCEDURE."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: DataType | None
    is_function: bool
    language: str
    """ESQL, JAVA (a Python function for us), DATABASE, CLR"""
    body: Statement | None
    external: str = ""
    """EXTERNAL NAME of what is not written in ESQL."""


@dataclass(frozen=True, slots=True)
class Module(Node):
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
