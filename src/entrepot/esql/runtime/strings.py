# SPDX-License-Identifier: Apache-2.0
"""The functions on strings: CHARACTER, BLOB and BIT alike, unless they are about letters.

Positions count from 1. NULL in any argument gives NULL. Strings that meet in
one call must be of one type; the product casts nothing here, so LENGTH of an
INTEGER is an error.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import Any

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime.casts_to_text import bytes_of_bits
from entrepot.esql.runtime.large import LARGE, require_room
from entrepot.esql.runtime.type_names import plain, require_integer, type_name_of, wrong_argument
from entrepot.models.values import Bits

RESULT_MAX = 32 * 1024 * 1024
"""The longest string that REPLICATE, SPACE and their like make: the product's own limit."""


def _digits(function: str, value: Any) -> Any:
    """A string that can be cut and searched: text, bytes, or the digits of bits."""
    if type(value) is str or type(value) is bytes:
        return value
    if type(value) is Bits:
        return value.digits
    value = plain(value)
    if type(value) is str or type(value) is bytes:
        return value
    raise wrong_argument(function, value, "CHARACTER, BLOB or BIT")


def _like(original: Any, result: Any) -> Any:
    """A result in the type of the string it was cut from."""
    return Bits(result) if type(original) is Bits else result


def _require_alike(function: str, first: Any, *others: Any) -> None:
    for other in others:
        if type(other) is not type(first) and type(plain(other)) is not type(plain(first)):
            names = " and ".join(type_name_of(value) for value in (first, other))
            raise EsqlRunError(
                f"{function} takes strings of one type, not {names}", number=2420, inserts=(function, names)
            )


def _too_long(function: str) -> EsqlRunError:
    return EsqlRunError(f"the result of {function} would be longer than {RESULT_MAX} characters", number=2420)


def _count(function: str, value: Any) -> int:
    count = require_integer(function, value)
    if count < 0:
        raise EsqlRunError(f"{function} takes no negative count, and {count} is one", sqlstate="S22011", number=2420)
    return count


# --- parts -----------------------------------------------------------------------------------------


def substring(source: Any, *arguments: Any, form: str = "FROM FOR") -> Any:
    """SUBSTRING(source FROM start [FOR length]), (source BEFORE text [FOR length]), (source AFTER text [FOR length]).

    The result of FROM and FOR is what the range and the string have in common; the range may begin before
    the string. Without the text, BEFORE and AFTER give an empty string.
    """
    if source is None or None in arguments:
        return None
    text = source if type(source) is str else _digits("SUBSTRING", source)
    length = _count("SUBSTRING", arguments[1]) if len(arguments) > 1 else None
    if form[0] == "F":
        start = require_integer("SUBSTRING", arguments[0]) - 1
        first = start if start > 0 else 0
        part = text[first:] if length is None else text[first : start + length] if start + length > 0 else text[:0]
        return Bits(part) if type(source) is Bits else part
    _require_alike("SUBSTRING", source, arguments[0])
    wanted = _digits("SUBSTRING", arguments[0])
    found = text.find(wanted)
    if found < 0:
        return _like(source, text[:0])
    if form.startswith("BEFORE"):
        return _like(source, text[max(found - length, 0) if length is not None else 0 : found])
    after = found + len(wanted)
    return _like(source, text[after:] if length is None else text[after : after + length])


def left(source: Any, count: Any) -> Any:
    """LEFT: the first characters."""
    if source is None or count is None:
        return None
    return _like(source, _digits("LEFT", source)[: max(require_integer("LEFT", count), 0)])


def right(source: Any, count: Any) -> Any:
    """RIGHT: the last characters."""
    if source is None or count is None:
        return None
    text = _digits("RIGHT", source)
    return _like(source, text[max(len(text) - max(require_integer("RIGHT", count), 0), 0) :])


def length(source: Any) -> int | None:
    """LENGTH, in characters, bytes or bits."""
    if type(source) is str:
        return len(source)
    return None if source is None else len(_digits("LENGTH", source))


def trim(*arguments: Any, form: str = "") -> Any:
    """TRIM(source), TRIM(side [singleton] FROM source), where the side is BOTH, LEADING or TRAILING."""
    if not form:
        return _trimmed("TRIM", arguments[0], "BOTH", None)
    if len(arguments) == 2:
        return _trimmed("TRIM", arguments[1], arguments[0], None)
    side, singleton, source = arguments
    return None if singleton is None else _trimmed("TRIM", source, side, singleton)


def _trimmed(function: str, source: Any, side: str, singleton: Any) -> Any:
    if source is None:
        return None
    if type(source) is str and singleton is None:
        single: Any = " "
        text: Any = source
    else:
        text = _digits(function, source)
        if singleton is None:
            single = b"\0" if type(text) is bytes else "0" if type(source) is Bits else " "
        else:
            _require_alike(function, source, singleton)
            single = _digits(function, singleton)
            if len(single) != 1:
                raise EsqlRunError(f"{function} takes one character off, not {single!r}", number=2420)
    if side == "LEADING":
        return _like(source, text.lstrip(single))
    if side == "TRAILING":
        return _like(source, text.rstrip(single))
    return _like(source, text.strip(single))


def ltrim(source: Any) -> Any:
    """LTRIM: without the blanks in front."""
    return _trimmed("LTRIM", source, "LEADING", None)


def rtrim(source: Any) -> Any:
    """RTRIM: without the blanks behind."""
    return _trimmed("RTRIM", source, "TRAILING", None)


# --- searching -------------------------------------------------------------------------------------


def contains(source: Any, wanted: Any) -> bool | None:
    if source is None or wanted is None:
        return None
    _require_alike("CONTAINS", source, wanted)
    return _digits("CONTAINS", wanted) in _digits("CONTAINS", source)


def starts_with(source: Any, wanted: Any) -> bool | None:
    if source is None or wanted is None:
        return None
    _require_alike("STARTSWITH", source, wanted)
    return _digits("STARTSWITH", source).startswith(_digits("STARTSWITH", wanted))  # type: ignore[no-any-return]


def ends_with(source: Any, wanted: Any) -> bool | None:
    if source is None or wanted is None:
        return None
    _require_alike("ENDSWITH", source, wanted)
    return _digits("ENDSWITH", source).endswith(_digits("ENDSWITH", wanted))  # type: ignore[no-any-return]


def position(wanted: Any, source: Any, *arguments: Any, form: str = "IN") -> int | None:
    """POSITION(wanted IN source [FROM place] [REPEAT n]): where the n-th one stands, 0 when there is none.

    A negative n searches backwards: from the place to the beginning, or from the end without one.
    """
    if wanted is None or source is None or None in arguments:
        return None
    _require_alike("POSITION", source, wanted)
    text = _digits("POSITION", source)
    search = _digits("POSITION", wanted)
    start, repeat = 1, 1
    if "FROM" in form:
        start = require_integer("POSITION", arguments[0])
        if start < 1:
            raise EsqlRunError(f"POSITION counts from 1, and {start} is less", sqlstate="S22011", number=2420)
    if "REPEAT" in form:
        repeat = require_integer("POSITION", arguments[-1])
    if not search:
        # SQL: nothing stands everywhere, and so at the start.
        return 1
    if repeat == 0:
        return 0
    if repeat > 0:
        place = start - 2
        for _ in range(repeat):
            place = text.find(search, place + 1)
            if place < 0:
                return 0
        return int(place) + 1
    end = start if "FROM" in form else len(text)
    for _ in range(-repeat):
        if end < 0:
            return 0
        place = text.rfind(search, 0, end)
        if place < 0:
            return 0
        end = place + len(search) - 1
    return int(place) + 1


# --- making others ---------------------------------------------------------------------------------


def overlay(source: Any, replacement: Any, start: Any, *arguments: Any, form: str = "PLACING FROM") -> Any:
    """OVERLAY(source PLACING replacement FROM start [FOR length])."""
    del form
    if source is None or replacement is None or start is None or None in arguments:
        return None
    _require_alike("OVERLAY", source, replacement)
    text = _digits("OVERLAY", source)
    new = _digits("OVERLAY", replacement)
    first = max(require_integer("OVERLAY", start) - 1, 0)
    count = _count("OVERLAY", arguments[0]) if arguments else len(new)
    require_room("OVERLAY", len(text) + len(new))
    return _like(source, text[:first] + new + text[first + count :])


def replace(source: Any, wanted: Any, replacement: Any = "") -> Any:
    """REPLACE(source, wanted [, replacement]): every one of them, or all taken out."""
    if source is None or wanted is None or replacement is None:
        return None
    if type(source) is str and type(wanted) is str and type(replacement) is str:
        text, search, new = source, wanted, replacement
    else:
        if replacement == "" and type(plain(source)) is not str:
            replacement = Bits("") if type(source) is Bits else b""
        _require_alike("REPLACE", source, wanted, replacement)
        text, search, new = (_digits("REPLACE", value) for value in (source, wanted, replacement))
    if not search:
        return source
    if len(new) > len(search) and len(text) // len(search) * (len(new) - len(search)) > RESULT_MAX:
        # Counting is only worth its time where the result could be huge.
        grown = len(text) + text.count(search) * (len(new) - len(search))
        if grown > RESULT_MAX:
            raise _too_long("REPLACE")
        require_room("REPLACE", grown)
    return _like(source, text.replace(search, new))


def replicate(source: Any, count: Any) -> Any:
    """REPLICATE: the string so many times."""
    if source is None or count is None:
        return None
    text = _digits("REPLICATE", source)
    times = _count("REPLICATE", count)
    if len(text) * times > RESULT_MAX:
        raise _too_long("REPLICATE")
    require_room("REPLICATE", len(text) * times)
    return _like(source, text * times)


def space(count: Any) -> str | None:
    """SPACE: so many blanks."""
    if count is None:
        return None
    times = _count("SPACE", count)
    if times > RESULT_MAX:
        raise _too_long("SPACE")
    require_room("SPACE", times)
    return " " * times


def _translation(wanted: str, replacement: str) -> dict[int, str | None]:
    # Tables of large strings are not kept: the keys alone would fill the memory.
    return (_table if len(wanted) + len(replacement) < LARGE else _table.__wrapped__)(wanted, replacement)


@lru_cache(maxsize=256)
def _table(wanted: str, replacement: str) -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    for place, character in enumerate(wanted):
        # The first of two equal characters counts; one without a partner goes out.
        table.setdefault(ord(character), replacement[place] if place < len(replacement) else None)
    return table


def translate(source: Any, wanted: Any, replacement: Any = "") -> Any:
    """TRANSLATE(source, wanted, replacement): each character of `wanted` by its partner, or taken out without one."""
    if source is None or wanted is None or replacement is None:
        return None
    if type(source) is str and type(wanted) is str and type(replacement) is str:
        return source.translate(_translation(wanted, replacement))
    if replacement == "" and type(plain(source)) is not str:
        replacement = Bits("") if type(source) is Bits else b""
    _require_alike("TRANSLATE", source, wanted, replacement)
    text, search, new = (_digits("TRANSLATE", value) for value in (source, wanted, replacement))
    if type(text) is bytes:
        table = _translation(search.decode("latin-1"), new.decode("latin-1"))
        return text.decode("latin-1").translate(table).encode("latin-1")
    return _like(source, text.translate(_translation(search, new)))


def upper(source: Any) -> str | None:
    if source is None:
        return None
    if isinstance(source, str):
        text = source.upper()
        # Some letters have two or three for a capital one.
        if len(text) > LARGE:
            require_room("UPPER", len(text))
        return text
    raise wrong_argument("UPPER", source, "CHARACTER")


def lower(source: Any) -> str | None:
    if source is None:
        return None
    if isinstance(source, str):
        text = source.lower()
        if len(text) > LARGE:
            require_room("LOWER", len(text))
        return text
    raise wrong_argument("LOWER", source, "CHARACTER")


def base64_encode(source: Any) -> str | None:
    """BASE64ENCODE of a BLOB, of BITs that fill bytes, or of a text's UTF-8."""
    if source is None:
        return None
    source = plain(source)
    if type(source) is str:
        data = source.encode("utf-8", "surrogatepass")
    elif type(source) is Bits:
        data = bytes_of_bits(source)
    elif type(source) is bytes:
        data = source
    else:
        raise wrong_argument("BASE64ENCODE", source, "CHARACTER, BLOB or BIT")
    require_room("BASE64ENCODE", (len(data) + 2) // 3 * 4)
    return base64.b64encode(data).decode("ascii")


def base64_decode(source: Any) -> bytes | None:
    """BASE64DECODE: the BLOB that a text stands for; line breaks and blanks do not count."""
    if source is None:
        return None
    source = plain(source)
    if type(source) is bytes:
        source = source.decode("latin-1")
    if type(source) is not str:
        raise wrong_argument("BASE64DECODE", source, "CHARACTER")
    try:
        return base64.b64decode("".join(source.split()), validate=True)
    except (binascii.Error, ValueError) as failure:
        raise EsqlRunError(f"BASE64DECODE: {failure}", sqlstate="S22018", number=2420) from failure
