# SPDX-License-Identifier: Apache-2.0
"""The table of ESQL's functions: what the checker knows of them and the compiler calls.

`FUNCTIONS` has those that are functions of values. Those that look at fields,
lists or databases the compiler makes itself; the checker's `STRUCTURAL` has how
many arguments they take. Names are in capitals; ESQL's are in any case.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime import date_functions, numbers, strings
from entrepot.esql.runtime.type_names import plain, wrong_argument


@dataclass(frozen=True, slots=True)
class Builtin:
    """One function."""

    name: str
    call: Callable[..., Any]
    arguments_min: int
    arguments_max: int | None
    """None for any number."""
    forms: tuple[str, ...] = ("",)
    """What `Call.form` may be; with more than one, `call` gets it as the keyword `form`."""
    needs_run: bool = False
    """`call` gets the run before its arguments."""


# --- identifiers -----------------------------------------------------------------------------------


def _new_uuid(run: Any) -> uuid.UUID:
    return uuid.UUID(int=run.random.getrandbits(128), version=4)


def uuid_as_blob(run: Any, *arguments: Any) -> bytes | None:
    """UUIDASBLOB: a new UUID, or the bytes of one that is written down."""
    if not arguments:
        return _new_uuid(run).bytes
    text = plain(arguments[0])
    if text is None:
        return None
    if type(text) is not str:
        raise wrong_argument("UUIDASBLOB", text, "CHARACTER")
    try:
        return uuid.UUID(text.strip()).bytes
    except ValueError as failure:
        raise EsqlRunError(f"UUIDASBLOB: {text[:100]!r} is no UUID", sqlstate="S22018", number=2420) from failure


def uuid_as_char(run: Any, *arguments: Any) -> str | None:
    """UUIDASCHAR: a new UUID, or sixteen bytes written as one."""
    if not arguments:
        return str(_new_uuid(run))
    data = plain(arguments[0])
    if data is None:
        return None
    if type(data) is not bytes or len(data) != 16:
        raise wrong_argument("UUIDASCHAR", data, "a BLOB of 16 bytes")
    return str(uuid.UUID(bytes=data))


# --- what the run knows --------------------------------------------------------------------------------


LABELS: tuple[str, ...] = (
    "AdditionalInstances",
    "ApplicationLabel",
    "BrokerName",
    "BrokerVersion",
    "CoordinatedTransaction",
    "DataSource",
    "DataSourceUserId",
    "DeploymentTime",
    "ExecutionGroupLabel",
    "ExecutionGroupName",
    "Family",
    "IntegrationServerLabel",
    "JobName",
    "LibraryLabel",
    "MessageFlowLabel",
    "MessageOptIn",
    "NodeLabel",
    "NodeType",
    "ProcessId",
    "QueueManagerName",
    "TransactionMode",
    "WorkPath",
)
"""The broker's properties that ESQL reads by name, with or without brackets."""


def _label(name: str) -> Callable[[Any], Any]:
    def read(run: Any) -> Any:
        labels = run.labels
        found = labels.get(name)
        if found is None:
            found = labels.get(name.upper())
        return found

    return read


_SIDES = ("", "FROM")
_SUBSTRING = ("FROM FOR", "FROM", "BEFORE", "AFTER", "BEFORE FOR", "AFTER FOR")
_POSITION = ("IN", "IN FROM", "IN REPEAT", "IN FROM REPEAT")
_OVERLAY = ("PLACING FROM", "PLACING FROM FOR")

_BUILTINS: list[Builtin] = [
    Builtin("BASE64DECODE", strings.base64_decode, 1, 1),
    Builtin("BASE64ENCODE", strings.base64_encode, 1, 1),
    Builtin("CONTAINS", strings.contains, 2, 2),
    Builtin("ENDSWITH", strings.ends_with, 2, 2),
    Builtin("LEFT", strings.left, 2, 2),
    Builtin("LENGTH", strings.length, 1, 1),
    Builtin("LOWER", strings.lower, 1, 1),
    Builtin("LCASE", strings.lower, 1, 1),
    Builtin("LTRIM", strings.ltrim, 1, 1),
    Builtin("OVERLAY", strings.overlay, 3, 4, _OVERLAY),
    Builtin("POSITION", strings.position, 2, 4, _POSITION),
    Builtin("REPLACE", strings.replace, 2, 3),
    Builtin("REPLICATE", strings.replicate, 2, 2),
    Builtin("RIGHT", strings.right, 2, 2),
    Builtin("RTRIM", strings.rtrim, 1, 1),
    Builtin("SPACE", strings.space, 1, 1),
    Builtin("STARTSWITH", strings.starts_with, 2, 2),
    Builtin("SUBSTRING", strings.substring, 2, 3, _SUBSTRING),
    Builtin("TRANSLATE", strings.translate, 2, 3),
    Builtin("TRIM", strings.trim, 1, 3, _SIDES),
    Builtin("UPPER", strings.upper, 1, 1),
    Builtin("UCASE", strings.upper, 1, 1),
    Builtin("ABS", numbers.absolute, 1, 1),
    Builtin("ABSVAL", numbers.absolute, 1, 1),
    Builtin("ACOS", numbers.acos, 1, 1),
    Builtin("ASIN", numbers.asin, 1, 1),
    Builtin("ATAN", numbers.atan, 1, 1),
    Builtin("ATAN2", numbers.atan2, 2, 2),
    Builtin("BITAND", numbers.bit_and, 2, None),
    Builtin("BITNOT", numbers.bit_not, 1, 1),
    Builtin("BITOR", numbers.bit_or, 2, None),
    Builtin("BITXOR", numbers.bit_xor, 2, None),
    Builtin("CEIL", numbers.ceiling, 1, 1),
    Builtin("CEILING", numbers.ceiling, 1, 1),
    Builtin("COS", numbers.cos, 1, 1),
    Builtin("COSH", numbers.cosh, 1, 1),
    Builtin("COT", numbers.cot, 1, 1),
    Builtin("DEGREES", numbers.degrees, 1, 1),
    Builtin("EXP", numbers.exp, 1, 1),
    Builtin("FLOOR", numbers.floor, 1, 1),
    Builtin("LN", numbers.ln, 1, 1),
    Builtin("LOG", numbers.ln, 1, 1),
    Builtin("LOG10", numbers.log10, 1, 1),
    Builtin("MOD", numbers.mod, 2, 2),
    Builtin("POWER", numbers.power, 2, 2),
    Builtin("RADIANS", numbers.radians, 1, 1),
    Builtin("RAND", numbers.rand, 0, 1, needs_run=True),
    Builtin("ROUND", numbers.round_, 2, 3, ("", "MODE")),
    Builtin("SIGN", numbers.sign, 1, 1),
    Builtin("SIN", numbers.sin, 1, 1),
    Builtin("SINH", numbers.sinh, 1, 1),
    Builtin("SQRT", numbers.sqrt, 1, 1),
    Builtin("TAN", numbers.tan, 1, 1),
    Builtin("TANH", numbers.tanh, 1, 1),
    Builtin("TRUNCATE", numbers.truncate, 2, 2),
    Builtin("CURRENT_DATE", date_functions.current_date, 0, 0, needs_run=True),
    Builtin("CURRENT_TIME", date_functions.current_time, 0, 0, needs_run=True),
    Builtin("CURRENT_TIMESTAMP", date_functions.current_timestamp, 0, 0, needs_run=True),
    Builtin("CURRENT_GMTDATE", date_functions.current_gmtdate, 0, 0, needs_run=True),
    Builtin("CURRENT_GMTTIME", date_functions.current_gmttime, 0, 0, needs_run=True),
    Builtin("CURRENT_GMTTIMESTAMP", date_functions.current_gmttimestamp, 0, 0, needs_run=True),
    Builtin("LOCAL_TIMEZONE", date_functions.local_timezone, 0, 0, needs_run=True),
    Builtin("EXTRACT", date_functions.extract, 2, 2, ("FROM",)),
    Builtin("UUIDASBLOB", uuid_as_blob, 0, 1, needs_run=True),
    Builtin("UUIDASCHAR", uuid_as_char, 0, 1, needs_run=True),
    Builtin("SQLCODE", lambda run: run.sqlcode, 0, 0, needs_run=True),
    Builtin("SQLERRORTEXT", lambda run: run.sqlerrortext, 0, 0, needs_run=True),
    Builtin("SQLNATIVEERROR", lambda run: run.sqlnativeerror, 0, 0, needs_run=True),
    Builtin("SQLSTATE", lambda run: run.sqlstate, 0, 0, needs_run=True),
]
_BUILTINS += [Builtin(name.upper(), _label(name), 0, 0, needs_run=True) for name in LABELS]

FUNCTIONS: Mapping[str, Builtin] = MappingProxyType({builtin.name: builtin for builtin in _BUILTINS})
