# SPDX-License-Identifier: Apache-2.0
"""What statements do that takes more than a line of Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from entrepot.errors import (
    BudgetSpent,
    CastFailed,
    EntrepotError,
    EsqlRunError,
    MessageTooComplex,
    ModelError,
    UserException,
)
from entrepot.esql.runtime.casting import to_character
from entrepot.esql.runtime.comparing import like
from entrepot.esql.runtime.fields import key_of, namespace_of, place, take
from entrepot.esql.runtime.run import EsqlRun
from entrepot.models.domains import find_domain
from entrepot.models.message_sets import find_format
from entrepot.models.tree import Assembly, Element, Folder


class LeaveLoop(Exception):
    """LEAVE of a loop that is not the innermost."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.label = label


class IterateLoop(LeaveLoop):
    """ITERATE of a loop that is not the innermost."""


def single(value: Any) -> Any:
    """A row or list where one value is wanted."""
    if type(value) is list:
        if len(value) > 1:
            raise EsqlRunError("a list of more than one where one value is wanted; THE takes the first", number=2499)
        value = value[0] if value else None
    return value.value if isinstance(value, Element) else value


_atomic = threading.RLock()


def run_atomic() -> AbstractContextManager[object]:
    """BEGIN ATOMIC: one at a time, so that SHARED variables change as a whole."""
    return _atomic


def cast_or(attempt: Callable[[], Any], default: Callable[[], Any]) -> Any:
    """CAST ... DEFAULT."""
    try:
        return attempt()
    except CastFailed:
        return default()


# --- references ------------------------------------------------------------------------------------------


def refer(target: Element | None, base: Element) -> tuple[Element, bool, int]:
    """DECLARE ... REFERENCE TO: what is not there leaves it at the beginning, and LASTMOVE says so."""
    return (base, False, 0) if target is None else (target, True, 0)


def move_to(reference: Element, target: Element | None) -> tuple[Element, bool, int]:
    """MOVE ... TO."""
    return (reference, False, 0) if target is None else (target, True, 0)


def detach(element: Element) -> None:
    """DETACH: the tree that a reference points to leaves its place, and the reference keeps it."""
    if element.parent is None:
        raise EsqlRunError("DETACH: this is the root of a tree, which has no place to leave", number=3283)
    element.parent.remove(element)


# --- CREATE ------------------------------------------------------------------------------------------------


def created_beside(target: Element | None, where: str, run: EsqlRun, **clauses: Any) -> Element:
    """CREATE LASTCHILD OF and its kin."""
    if target is None:
        raise EsqlRunError(f"CREATE {where}: the field it is to be created at is not there", number=3280)
    repeat = clauses.pop("repeat", ())
    key, kind = "", None
    if repeat:
        key = target.key if "NAME" in repeat else ""
        kind = target.kind if "TYPE" in repeat else None
    parent = target if where in ("FIRSTCHILD", "LASTCHILD") else target.parent
    element = _made(parent, key, run, clauses)
    if kind is not None:
        element.kind = kind
    return place(element, target, where)


def _made(parent: Element | None, key: str, run: EsqlRun, clauses: dict[str, Any]) -> Element:
    domain = clauses.get("domain")
    name = clauses.get("name")
    if name is not None or "namespace" in clauses:
        key = key_of(namespace_of(clauses.get("namespace")), name if name is not None else key)
    if domain is not None or "parse" in clauses:
        return _parsed(domain, key, run, clauses)
    element = parent.new_child(key) if parent is not None else Element(key)
    _dress(element, clauses)
    return element


def _dress(element: Element, clauses: dict[str, Any]) -> None:
    source = clauses.get("source")
    if isinstance(source, Element):
        if not element.key:
            element.key = source.key
            element.kind = source.kind
        take(element, source)
    kinds = clauses.get("kinds")
    if kinds:
        element.kind = kinds[0]
    if "value" in clauses:
        element.set_value(clauses["value"])


def created_field(element: Element, run: EsqlRun, **clauses: Any) -> Element:
    """CREATE FIELD: the path is made already; this says what stands at its end."""
    if "domain" in clauses or "parse" in clauses:
        folder = _parsed(clauses.get("domain"), element.key, run, clauses)
        parent = element.parent
        if parent is None:
            raise EsqlRunError("CREATE FIELD ... DOMAIN: a root cannot be replaced", number=3280)
        position = parent.position(element, len(parent.children) - 1)
        parent.remove(element)
        parent.insert(position, folder)
        return folder
    _dress(element, clauses)
    return element


def _parsed(domain_name: Any, key: str, run: EsqlRun, clauses: dict[str, Any]) -> Folder:
    """A folder of a domain, with bytes to be parsed when there is a PARSE clause."""
    if domain_name is None:
        domain_name = "BLOB"
    domain = find_domain(domain_name)
    if domain is None:
        raise EsqlRunError(f"there is no domain {domain_name!r}", number=3280)
    body = clauses.get("parse")
    if body is not None and type(body) is not bytes:
        raise EsqlRunError(f"PARSE takes a BLOB, not {type(body).__name__}", number=3280)
    folder = Folder(
        domain,
        body,
        key=key or domain.name,
        ccsid=clauses.get("ccsid") or _property(run, "CodedCharSetId", 1208),
        encoding=clauses.get("encoding") or _property(run, "Encoding", 546),
        model=_model(clauses.get("message_set"), clauses.get("message_type"), clauses.get("message_format")),
    )
    if body is not None:
        # A program that says PARSE wants to hear of bad bytes here, where a HANDLER can take it.
        try:
            folder.load()
        except EntrepotError as error:
            raise EsqlRunError(f"PARSE: {error.what}", number=5902) from error
    return folder


def _property(run: EsqlRun, name: str, default: int) -> int:
    value = run.input_root.get("Properties", name)
    return value if type(value) is int and value else default


def _model(message_set: Any, message_type: Any, message_format: Any) -> Any:
    if not message_set and not message_type:
        return None
    return find_format(message_set or "", message_type or "", message_format or "")


def bitstream(
    run: EsqlRun,
    element: Element | None,
    options: Any,
    encoding: Any,
    ccsid: Any,
    message_set: Any,
    message_type: Any,
    message_format: Any,
) -> bytes | None:
    """ASBITSTREAM: the bytes of a part of a tree."""
    del options
    if element is None:
        return None
    above = element.folder()
    if above is None:
        raise EsqlRunError("ASBITSTREAM: the field belongs to no domain that could write it", number=2498)
    model = _model(message_set, message_type, message_format)
    if element is above and model is None and encoding in (None, above.encoding) and ccsid in (None, above.ccsid):
        return _rendered(above)
    # A field of a SOAP message is no SOAP message, but it is XML.
    part_of_soap = element is not above and above.domain.name == "SOAP"
    folder = Folder(
        (part_of_soap and find_domain("XMLNSC")) or above.domain,
        ccsid=ccsid or above.ccsid or _property(run, "CodedCharSetId", 1208),
        encoding=encoding or above.encoding,
        model=model or above.model,
    )
    folder.fill([child.copy() for child in element.children] if element is above else [element.copy()])
    return _rendered(folder)


def _rendered(folder: Folder) -> bytes:
    # As with PARSE, a HANDLER can take it.
    try:
        return folder.render()
    except EntrepotError as error:
        raise EsqlRunError(f"ASBITSTREAM: {error.what}", number=2498) from error


# --- messages, exceptions, logging ---------------------------------------------------------------------------

_TERMINALS = {-1: "failure", 0: "out", 1: "out1", 2: "out2", 3: "out3", 4: "out4"}

_WANTS_MESSAGE = {"message", "destinationAndMessage", "exceptionAndMessage", "all"}
_WANTS_DESTINATION = {"destination", "destinationAndMessage", "exceptionAndDestination", "all"}
_WANTS_EXCEPTION = {"exception", "exceptionAndMessage", "exceptionAndDestination", "all"}


def outgoing(run: EsqlRun) -> Assembly:
    """What leaves the node: the trees that its mode takes from the output, the others from the input."""
    mode, came = run.mode, run.assembly
    if mode == "message":
        return Assembly(run.output_root, came.environment, came._local_environment, came._exception_list)
    made = run.output
    return Assembly(
        made.root if mode in _WANTS_MESSAGE else came.root,
        came.environment,
        (made if mode in _WANTS_DESTINATION else came)._local_environment,
        (made if mode in _WANTS_EXCEPTION else came)._exception_list,
    )


def propagate(
    run: EsqlRun,
    terminal: Any,
    label: Any,
    environment: Any,
    message: Any,
    exception: Any,
    *,
    finalize: bool,
    delete: bool,
) -> None:
    """PROPAGATE: the message goes on now, and the program goes on when it has arrived."""
    del finalize
    leaving = outgoing(run)
    if environment is not None:
        leaving.local_environment = environment
    if message is not None:
        leaving.root = message
    if exception is not None:
        leaving.exception_list = exception
    if label is not None:
        where, name = "label", label
    else:
        where = "terminal"
        name = _TERMINALS.get(terminal, terminal) if type(terminal) is int else terminal or "out"
        if terminal == -2:
            name = "nowhere"
    if type(name) is not str:
        raise EsqlRunError(f"PROPAGATE goes to a terminal by name or by a number from -2 to 4, not {name!r}")
    if run.emit is not None and name != "nowhere":
        run.emit(where, name, leaving)
    if delete and run.mode:
        made = run.output
        for tree in (made.root, made._local_environment, made._exception_list):
            if tree is not None:
                tree.clear()


def throw(severity: Any, catalog: Any, message: Any, values: tuple[Any, ...]) -> None:
    """THROW USER EXCEPTION."""
    inserts = tuple("" if value is None else to_character(value) for value in values)
    number = message if type(message) is int else 2951
    raise UserException(
        problem=" ".join(inserts) or f"user exception {number}",
        number=number,
        inserts=inserts,
        severity=severity if type(severity) is int else 1,
        catalog=catalog or "WMQIv6",
    )


def log(
    run: EsqlRun, where: str, exception: bool, severity: Any, catalog: Any, message: Any, values: tuple[Any, ...]
) -> None:
    """LOG."""
    del severity, catalog
    if run.report is not None:
        inserts = tuple("" if value is None else to_character(value) for value in values)
        if exception and run.error is not None:
            inserts = (*inserts, run.error.problem)
        run.report(where, message if type(message) is int else 2951, " ".join(inserts), inserts)


HANDLED = (EsqlRunError, ModelError)
"""What a HANDLER may take: what the program did, and what it met in a message that was not read before."""


def taken(error: EsqlRunError | ModelError) -> EsqlRunError:
    """An error as a HANDLER sees it."""
    if isinstance(error, EsqlRunError):
        return error
    if isinstance(error, MessageTooComplex) and error.domain == "tree":
        return BudgetSpent(error.problem)
    return EsqlRunError(error.what, number=5902, inserts=(error.what,))


def handles(error: EsqlRunError, states: tuple[tuple[str, str, str], ...]) -> bool:
    """Whether a HANDLER takes this error; a spent budget it cannot take, or the loop would go on."""
    if isinstance(error, BudgetSpent):
        return False
    state = error.state
    return any(
        state == value if operator == "=" else bool(like(state, value, escape or None))
        for operator, value, escape in states
    )
