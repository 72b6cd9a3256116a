# SPDX-License-Identifier: Apache-2.0
"""The ExceptionList: an error as the tree in which flows look at it.

    ExceptionList
      RecoverableException          number 2230: the node that could not go on
        File, Line, Function, Type, Name, Label, Catalog, Severity, Number, Text
        Insert: Type 14, Text       the node's label
        ParserException             what was behind it; its last child may tell more
          File, Line, ...
          Insert: Type, Text        one for each

Programs walk down it by MOVE ... LASTCHILD for as long as there is a Number,
so what was behind an error is always the last child, and the innermost of
them says best what went wrong. Order and types of the fields are those of
IBM's brokers.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from entrepot.errors import CastFailed, DatabaseFailed, EntrepotError, EsqlRunError, ModelError, UserException
from entrepot.errors.describing import error_text
from entrepot.models.element_types import NAME_VALUE
from entrepot.models.tree import Assembly, Element
from entrepot.models.value_text import xml_text
from entrepot.models.values import Bits, Interval

if TYPE_CHECKING:
    from entrepot.flows.journey import Journey
    from entrepot.flows.nodes.node import Node

RETHROWN = 2230
"""What IBM's brokers say of a node that could not go on: error detected whilst processing a message in a node."""
_DATABASE = 2321
"""Theirs for what a database refuses; the SQLSTATE stands one level below."""
_PARSING = 5902
"""Theirs for a body that its parser cannot read."""
_CATALOG = "BIPmsgs"
_ERROR = 3
"""The severity of errors that were not thrown on purpose."""
_LABEL = 14
_INTEGER = 2
_CHARACTER = 5
_CAUSES_MAX = 10


def with_exception(assembly: Assembly, error: BaseException, journey: Journey) -> Assembly:
    """A message with an ExceptionList that tells of an error; the rest is the same."""
    return Assembly(
        assembly.root, assembly.environment, assembly.local_environment, exception_list(error, journey.raised_by)
    )


def exception_list(error: BaseException, node: Node | None) -> Element:
    """The tree that tells of an error."""
    root = Element("ExceptionList")
    outer = root.add("RecoverableException")
    _fill(outer, error, node, RETHROWN, "Caught exception and rethrowing")
    if node is not None:
        _add_insert(outer, _LABEL, _label(node))
    within = outer
    for each in _causes(error):
        if isinstance(each, DatabaseFailed):
            within = within.add("DatabaseException")
            _fill(within, each, node, _DATABASE, "Root SQL exception")
            _add_insert(within, _INTEGER, "-1")
        within = _add_error(within, each, node)
    return root


def _add_error(within: Element, error: BaseException, node: Node | None) -> Element:
    entry = within.add(_kind(error))
    _fill(
        entry,
        error,
        node,
        _number(error),
        _text(error),
        severity=_own_attribute(error, "severity", _ERROR),
        catalog=_own_attribute(error, "catalog", _CATALOG),
    )
    for value in _inserts(error):
        _add_insert(entry, _type_number(value), "" if value is None else xml_text(value))
    return entry


def _causes(error: BaseException) -> list[BaseException]:
    """The error, and what was behind it where that is something of its own: a node of ours that asked a database."""
    found = [error]
    while len(found) < _CAUSES_MAX:
        cause = found[-1].__cause__
        if not isinstance(cause, EntrepotError) or cause in found:
            break
        found.append(cause)
    return found


def _fill(
    element: Element,
    error: BaseException,
    node: Node | None,
    number: int,
    text: str,
    *,
    severity: int = _ERROR,
    catalog: str = _CATALOG,
) -> None:
    file, line = _place(error)
    for name, value in (
        ("File", file),
        ("Line", line),
        ("Function", type(error).__name__),
        ("Type", f"ComIbm{node.type}Node" if node else ""),
        ("Name", node.name if node else ""),
        ("Label", _label(node) if node else ""),
        ("Catalog", catalog),
        ("Severity", severity),
        ("Number", number),
        ("Text", text),
    ):
        element.add(name, value, NAME_VALUE)


def _add_insert(element: Element, type_number: int, text: str) -> None:
    insert = element.add("Insert")
    insert.add("Type", type_number, NAME_VALUE)
    insert.add("Text", text, NAME_VALUE)


def _label(node: Node) -> str:
    """flow.node, and flow.subflow.node for one that came from a subflow."""
    return f"{node.plan.flow.name}.{node.name.replace('/', '.')}"


def _kind(error: BaseException) -> str:
    if isinstance(error, UserException):
        return "UserException"
    if isinstance(error, DatabaseFailed):
        return "DatabaseException"
    if isinstance(error, CastFailed):
        return "CastException"
    return "ParserException" if isinstance(error, ModelError) else "RecoverableException"


def _number(error: BaseException) -> int:
    number = _own_attribute(error, "number", 0) or _own_attribute(error, "reason", 0)
    if number:
        return int(number)
    return _PARSING if isinstance(error, ModelError) else RETHROWN


def _text(error: BaseException) -> str:
    if isinstance(error, EsqlRunError):
        return error.problem
    return error_text(error)


def _inserts(error: BaseException) -> tuple[Any, ...]:
    if isinstance(error, DatabaseFailed) and not error.inserts:
        return error.sqlstate, error.native_error, error.problem
    return tuple(_own_attribute(error, "inserts", ()))


def _own_attribute(error: BaseException, name: str, otherwise: Any) -> Any:
    """What an error of ours says about itself; others may use these names for anything, or raise when asked."""
    return getattr(error, name, otherwise) if isinstance(error, EntrepotError) else otherwise


def _type_number(value: Any) -> int:
    for types, number in _TYPE_NUMBERS:
        if isinstance(value, types):
            zoned = isinstance(value, datetime | time) and value.tzinfo is not None
            return number + zoned
    return 0


_TYPE_NUMBERS: tuple[tuple[type | tuple[type, ...], int], ...] = (
    (bool, 1),
    (int, _INTEGER),
    (float, 3),
    (Decimal, 4),
    (str, _CHARACTER),
    (time, 6),  # GMTTIME is the next
    (datetime, 9),  # GMTTIMESTAMP too
    (date, 8),
    (Interval, 11),
    (bytes, 12),
    (Bits, 13),
)
"""The numbers of IBM's types of inserts; a datetime is a date to Python, so it comes first."""


def _place(error: BaseException) -> tuple[str, int]:
    """File and line: of the ESQL where there is some, else of the Python that raised it."""
    place = _own_attribute(error, "place", "")
    if place:
        file, _, line = str(place).rpartition(":")
        if line.isdigit():
            return file, int(line)
        return str(place), 0
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "", 0
    return trace.tb_frame.f_code.co_filename.rpartition("/")[2], trace.tb_lineno
