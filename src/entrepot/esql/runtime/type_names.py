# SPDX-License-Identifier: Apache-2.0
"""What ESQL calls the type of a value, and the error for values of the wrong type.

    type_name_of("a")  CHARACTER      type_name_of(datetime.now())  TIMESTAMP

The values are those of models/tree.py. A subclass of one of their types is
not expected in a tree, but does no harm: it counts as what it derives from.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.errors.esql import EsqlRunError
from entrepot.models.values import Bits, Interval

INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)

_NAMES: dict[type, str] = {
    str: "CHARACTER",
    int: "INTEGER",
    Decimal: "DECIMAL",
    float: "FLOAT",
    bool: "BOOLEAN",
    bytes: "BLOB",
    Bits: "BIT",
    date: "DATE",
    Interval: "INTERVAL",
}


def type_name_of(value: Any) -> str:
    """CHARACTER, INTEGER, ..., GMTTIMESTAMP; NULL for None."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return "TIMESTAMP" if value.tzinfo is None else "GMTTIMESTAMP"
    if isinstance(value, time):
        return "TIME" if value.tzinfo is None else "GMTTIME"
    for known, name in _NAMES.items():
        if isinstance(value, known) and not isinstance(value, bool):
            return name
    return type(value).__name__.upper()


def plain(value: Any) -> Any:
    """The same value without a subclass: what compares and adds by exact type asks for it before giving up."""
    kind = type(value)
    if value is None or kind in _NAMES or kind is datetime or kind is time:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    for known in (str, float, int, Decimal):
        if isinstance(value, known):
            return known(value)
    return value


def incompatible(operator: str, *values: Any) -> EsqlRunError:
    """The error for an operator between values that it cannot take."""
    names = " and ".join(type_name_of(value) for value in values)
    return EsqlRunError(f"{operator} does not work on {names}", number=2420, inserts=(operator, names))


def wrong_argument(function: str, value: Any, wanted: str) -> EsqlRunError:
    """The error for an argument of the wrong type."""
    name = type_name_of(value)
    return EsqlRunError(f"{function} takes {wanted}, not {name}", number=2420, inserts=(function, name))


def overflow(what: str) -> EsqlRunError:
    return EsqlRunError(f"the result of {what} is too large", sqlstate="S22003", number=2401)


def divided_by_zero() -> EsqlRunError:
    return EsqlRunError("division by zero", sqlstate="S22012", number=2401)


def require_integer(function: str, value: Any) -> int:
    """An argument that counts or points: an INTEGER."""
    if type(value) is int:
        return value
    value = plain(value)
    if type(value) is int:
        return value
    raise wrong_argument(function, value, "an INTEGER")
