# SPDX-License-Identifier: Apache-2.0
"""The ExceptionList: an error as the tree in which flows look at it.

    ExceptionList
      RecoverableException
        File, Line, Function, Type, Name, Label, Catalog, Severity, Number, Text
        Insert: Type, Text          one for each
        ParserException             what was behind it, innermost last
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.errors import DatabaseFailed, EntrepotError, EsqlRunError, ModelError
from entrepot.models.tree import Assembly, Element

if TYPE_CHECKING:
    from entrepot.flows.journey import Journey
    from entrepot.flows.nodes.node import Node

_OUTERMOST = 2230
"""What IBM's brokers say of a node that could not go on: error detected whilst processing a message in a node."""
_CATALOG = "BIPmsgs"
_SEVERITY = 3
_INSERT_CHARACTER = 5


def with_exception(assembly: Assembly, error: BaseException, journey: Journey) -> Assembly:
    """A message with an ExceptionList that tells of an error; the rest is the same."""
    return Assembly(
        assembly.root, assembly.environment, assembly.local_environment, exception_list(error, journey.raised_by)
    )


def exception_list(error: BaseException, node: Node | None) -> Element:
    """The tree that tells of an error."""
    told = Element("ExceptionList")
    outer = told.add("RecoverableException")
    _fill(outer, error, node, _OUTERMOST, "Caught exception and rethrowing")
    inner = outer.add(_kind(error))
    _fill(inner, error, node, _number(error), _text(error))
    for text in _inserts(error):
        insert = inner.add("Insert")
        insert.add("Type", _INSERT_CHARACTER)
        insert.add("Text", text)
    return told


def _fill(element: Element, error: BaseException, node: Node | None, number: int, text: str) -> None:
    file, line = _place(error)
    element.add("File", file)
    element.add("Line", line)
    element.add("Function", type(error).__name__)
    element.add("Type", f"ComIbm{node.type}Node" if node else "")
    element.add("Name", node.name if node else "")
    element.add("Label", f"{node.plan.flow.name}.{node.name}" if node else "")
    element.add("Catalog", _CATALOG)
    element.add("Severity", _SEVERITY)
    element.add("Number", number)
    element.add("Text", text)


def _kind(error: BaseException) -> str:
    if isinstance(error, DatabaseFailed):
        return "DatabaseException"
    if isinstance(error, ModelError):
        return "ParserException"
    return "UserException" if type(error).__name__ == "UserException" else "RecoverableException"


def _number(error: BaseException) -> int:
    number = getattr(error, "number", 0)
    if number:
        return int(number)
    return int(getattr(error, "reason", 0) or _OUTERMOST)


def _text(error: BaseException) -> str:
    if isinstance(error, EsqlRunError):
        return error.problem
    return error.what if isinstance(error, EntrepotError) else str(error) or type(error).__name__


def _inserts(error: BaseException) -> tuple[str, ...]:
    found = getattr(error, "inserts", ())
    return tuple(str(each) for each in found)


def _place(error: BaseException) -> tuple[str, int]:
    """File and line: of the ESQL where there is some, else of the Python that raised it."""
    place = getattr(error, "place", "")
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
