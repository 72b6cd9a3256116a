# SPDX-License-Identifier: Apache-2.0
"""CAST: any value to any type that topic ak05680 allows.

    cast("42", "INTEGER")  42          cast(b"\\xe2\\x84\\xa2", "CHARACTER", ccsid=1208)  ™
    cast(Decimal("1234.5"), "CHARACTER", format="#,##0.00")  1,234.50

The plain cases are tables of small functions by source type, one table for
each target; `caster` picks the table once. CCSID and ENCODING matter between
string types, FORMAT between a string and a number or a date; elsewhere they
are let pass, as the product does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from entrepot.errors.esql import CastFailed, EsqlRunError
from entrepot.esql.runtime.casts_to_dates import (
    TO_DATE,
    TO_GMTTIME,
    TO_GMTTIMESTAMP,
    TO_TIME,
    TO_TIMESTAMP,
    parts_to_datetime,
    parts_to_interval,
    to_interval,
)
from entrepot.esql.runtime.casts_to_numbers import (
    TO_BOOLEAN,
    TO_DECIMAL,
    TO_FLOAT,
    TO_INTEGER,
    Casts,
    decimal_fitter,
    integer_from_decimal,
)
from entrepot.esql.runtime.casts_to_text import (
    TO_BIT,
    TO_BLOB,
    TO_CHARACTER,
    as_text,
    from_text,
)
from entrepot.esql.runtime.datetime_formats import format_datetime, parse_datetime
from entrepot.esql.runtime.number_formats import format_number, parse_number
from entrepot.esql.runtime.type_names import plain, require_integer, type_name_of, wrong_argument
from entrepot.esql.syntax import UNABBREVIATED
from entrepot.models.values import Bits

_TABLES: dict[str, Casts] = {
    "CHARACTER": TO_CHARACTER,
    "BLOB": TO_BLOB,
    "BIT": TO_BIT,
    "INTEGER": TO_INTEGER,
    "FLOAT": TO_FLOAT,
    "BOOLEAN": TO_BOOLEAN,
    "DECIMAL": TO_DECIMAL,
    "DATE": TO_DATE,
    "TIME": TO_TIME,
    "GMTTIME": TO_GMTTIME,
    "TIMESTAMP": TO_TIMESTAMP,
    "GMTTIMESTAMP": TO_GMTTIMESTAMP,
}
_STRINGS = frozenset(("CHARACTER", "BLOB", "BIT"))
_NUMBERS = frozenset(("INTEGER", "DECIMAL", "FLOAT"))
_DATES = frozenset(("DATE", "TIME", "GMTTIME", "TIMESTAMP", "GMTTIMESTAMP"))
_STRING_TYPES = (str, bytes, Bits)
_NUMBER_TYPES = (int, Decimal, float)
_DATE_TYPES = (date, time, datetime)


@lru_cache(maxsize=512)
def caster(
    type_name: str, precision: int | None = None, scale: int | None = None, qualifier: str = ""
) -> Callable[[Any], Any]:
    """The plain cast to a type, without clauses; NULL stays NULL.

    Raises:
        EsqlRunError: There is no such type. The function raises CastFailed for what cannot become one.
    """
    name = UNABBREVIATED.get(type_name, type_name)
    casts = to_interval(qualifier) if name == "INTERVAL" else _TABLES.get(name)
    if casts is None:
        raise EsqlRunError(f"nothing can be cast to {type_name}", number=2420, inserts=(type_name,))
    if name == "DECIMAL" and precision is not None:
        fit = decimal_fitter(precision, scale)
        casts = {source: _then(first, fit) for source, first in casts.items()}
    find = casts.get

    def apply(value: Any) -> Any:
        convert = find(type(value))
        if convert is not None:
            return convert(value)
        if value is None:
            return None
        value = plain(value)
        convert = find(type(value))
        if convert is None:
            source = type_name_of(value)
            raise CastFailed(f"{source} cannot become {name}", number=2595, inserts=(source, name))
        return convert(value)

    return apply


def _then(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: second(first(value))


to_character = caster("CHARACTER")
"""The text of any value, as CAST to CHARACTER without clauses gives it."""


def cast(
    value: Any,
    type_name: str,
    precision: int | None = None,
    scale: int | None = None,
    qualifier: str = "",
    ccsid: Any = None,
    encoding: Any = None,
    format: Any = None,  # noqa: A002 - the name of ESQL's clause
) -> Any:
    """CAST(value AS type CCSID ... ENCODING ... FORMAT ...).

    Raises:
        CastFailed: The value cannot become one, or a clause is wrong.
    """
    if value is None:
        return None
    name = UNABBREVIATED.get(type_name, type_name)
    if ccsid is None and encoding is None and format is None:
        return caster(name, precision, scale, qualifier)(value)
    value = plain(value)
    ccsid = None if ccsid is None else require_integer("CCSID", ccsid)
    encoding = None if encoding is None else require_integer("ENCODING", encoding)
    if format is not None:
        if type(format) is not str:
            raise wrong_argument("FORMAT", format, "CHARACTER")
        if type(value) in _STRING_TYPES:
            if name in _NUMBERS:
                number = parse_number(as_text(value, ccsid, encoding), format, name)
                # The whole number is exact as DECIMAL; by way of FLOAT it would lose its last digits.
                if name == "INTEGER":
                    return integer_from_decimal(number)
                return caster(name, precision, scale)(number)
            if name in _DATES:
                return parse_datetime(as_text(value, ccsid, encoding), format, name)
        elif name in _STRINGS:
            if type(value) in _NUMBER_TYPES:
                return from_text(format_number(value, format), name, ccsid, encoding)
            if type(value) in _DATE_TYPES:
                return from_text(format_datetime(value, format), name, ccsid, encoding)
    if ccsid is not None or encoding is not None:
        if type(value) in _STRING_TYPES and name in _STRINGS:
            return _between_strings(value, name, ccsid, encoding)
        if type(value) in (bytes, Bits) and name not in _STRINGS and name != "INTEGER":
            # Bytes have no number, date or truth of their own in ESQL, but their characters have.
            value = as_text(value, ccsid, encoding)
        elif name in ("BLOB", "BIT") and type(value) is not int:
            return from_text(to_character(value), name, ccsid, encoding)
    return caster(name, precision, scale, qualifier)(value)


def _between_strings(value: Any, target: str, ccsid: int | None, encoding: int | None) -> Any:
    if type(value) is str:
        return from_text(value, target, ccsid, encoding)
    if target == "CHARACTER":
        return as_text(value, ccsid, encoding)
    return caster(target)(value)


def cast_parts(values: Sequence[Any], type_name: str, qualifier: str = "") -> Any:
    """CAST(2003, 12, 24 AS DATE): several values make one; NULL among them makes it NULL.

    Raises:
        CastFailed: They are too many or too few, or make no such value.
    """
    if any(value is None for value in values):
        return None
    parts = [plain(value) for value in values]
    if type_name == "INTERVAL":
        return parts_to_interval(parts, qualifier)
    return parts_to_datetime(parts, type_name)
