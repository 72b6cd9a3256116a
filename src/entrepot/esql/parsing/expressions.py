# SPDX-License-Identifier: Apache-2.0
"""Expressions from what the grammar finds."""

from __future__ import annotations

import re
from decimal import Decimal
from math import isinf
from typing import Any

from lark import Token

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.parsing.building import PathBuilding, Wrong, chain_of, place_of, plain_names
from entrepot.esql.parsing.words import words
from entrepot.esql.syntax import (
    UNABBREVIATED,
    Among,
    Between,
    Binary,
    BitStream,
    Call,
    Case,
    Cast,
    DataType,
    Expression,
    FromSource,
    IntervalOf,
    Is,
    Like,
    ListOf,
    Literal,
    Passthru,
    Path,
    RowOf,
    Select,
    Selected,
    SourcePlace,
    Step,
    The,
    Unary,
)
from entrepot.models.values import Bits

_INTEGER_MAX = 2**63 - 1
_DECIMAL_DIGITS_MAX = 34
_TYPE = re.compile(r"(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_EXTRACTED = words(
    "YEAR MONTH DAY HOUR MINUTE SECOND DAYS DAYOFYEAR DAYOFWEEK MONTHS QUARTEROFYEAR QUARTERS WEEKS WEEKOFYEAR"
    " WEEKOFMONTH ISLEAPYEAR"
)
_MODES = words("ROUND_UP ROUND_DOWN ROUND_CEILING ROUND_FLOOR ROUND_HALF_UP ROUND_HALF_EVEN ROUND_HALF_DOWN")
STREAM_ORDER = ("encoding", "ccsid", "set", "type", "format", "options")
"""What the expressions behind the first of ASBITSTREAM and PARSE mean when commas separate them."""


def stream_clauses(parts: tuple[Any, ...], place: SourcePlace) -> dict[str, Any] | Wrong:
    """The clauses of ASBITSTREAM or PARSE, by the name of the field that keeps them."""
    clauses: dict[str, Any] = {}
    for number, (name, expression) in enumerate(parts):
        if not name and number >= len(STREAM_ORDER):
            return Wrong(place, f"at most {len(STREAM_ORDER)} expressions may follow the first")
        key = name.lower() or STREAM_ORDER[number]
        if key in clauses:
            return Wrong(place, f"{name} is given twice")
        clauses[key] = expression
    return {key: expression for key, expression in clauses.items() if expression is not None}


class LiteralBuilding:
    """Values as they are written."""

    def text_literal(self, token: Token) -> Literal:
        return Literal(place_of(token), text_of(token))

    def blob_literal(self, token: Token) -> Literal | Wrong:
        digits = token.value[2:-1]
        if re.fullmatch("(?:[0-9a-fA-F]{2})*", digits) is None:
            return Wrong(place_of(token), "a BLOB is written as an even number of hexadecimal digits: X'0AFF'")
        return Literal(place_of(token), bytes.fromhex(digits))

    def bits_literal(self, token: Token) -> Literal | Wrong:
        digits = token.value[2:-1]
        if digits.strip("01"):
            return Wrong(place_of(token), "a BIT value is written in zeros and ones: B'0101'")
        return Literal(place_of(token), Bits(digits))

    def integer_literal(self, token: Token) -> Literal | Wrong:
        text = token.value
        if text[:2] in ("0x", "0X"):
            if len(text) > 18:
                return Wrong(place_of(token), "an INTEGER has at most 16 hexadecimal digits")
            number = int(text, 16)
            return Literal(place_of(token), number if number <= _INTEGER_MAX else number - 2**64)
        if len(text) <= 18 or (len(text) <= 40 and int(text) <= _INTEGER_MAX):
            return Literal(place_of(token), int(text))
        # What is too large for 64 bits is a DECIMAL, as in the product.
        return self.decimal_literal(token)

    def decimal_literal(self, token: Token) -> Literal | Wrong:
        if len(token.value.replace(".", "").lstrip("0")) > _DECIMAL_DIGITS_MAX:
            return Wrong(place_of(token), f"a DECIMAL has at most {_DECIMAL_DIGITS_MAX} digits")
        return Literal(place_of(token), Decimal(token.value.rstrip(".")))

    def float_literal(self, token: Token) -> Literal | Wrong:
        number = float(token.value)
        if isinf(number):
            return Wrong(place_of(token), "this is too large for a FLOAT")
        return Literal(place_of(token), number)

    def temporal_literal(self, word: Token, text: Token) -> Literal | Wrong:
        from entrepot.esql.runtime.dates import read_datetime

        name = word.value.upper()
        if name == "DECIMAL":
            return _decimal_keyword(word, text)
        try:
            return Literal(place_of(word), read_datetime(text_of(text), name))
        except EsqlRunError:
            form = {"DATE": "2003-12-24", "TIME": "18:30:00", "TIMESTAMP": "2003-12-24 18:30:00"}
            example = form[name.removeprefix("GMT")]
            return Wrong(place_of(text), f"this is no {name}; one is written {name} '{example}'")

    def interval_literal(self, word: Token, sign: Token | None, text: Token, qualifier: Any) -> Literal | Wrong:
        from entrepot.esql.runtime.intervals import read_interval

        if isinstance(qualifier, Wrong):
            return qualifier
        body = text_of(text).strip()
        if sign is not None and sign.value == "-":
            # Two negatives make a positive.
            body = body[1:] if body[:1] == "-" else "-" + body.removeprefix("+")
        try:
            return Literal(place_of(word), read_interval(body, qualifier))
        except EsqlRunError:
            return Wrong(place_of(text), f"this is no INTERVAL {qualifier}")

    def constant_literal(self, word: Token) -> Literal:
        if word.type == "NULL":
            return Literal(place_of(word), None)
        if word.type == "UNKNOWN":
            return Literal(place_of(word), None, unknown=True)
        return Literal(place_of(word), word.type == "TRUE")

    def niladic(self, word: Token) -> Call:
        # The first release wrote SQL.MessageFlowLabel where later ones write MessageFlowLabel.
        return Call(place_of(word), (word.value.rpartition(".")[2].strip(),), ())

    def qualifier(self, first: Token, to: Token | None, last: Token | None) -> str | Wrong:
        from entrepot.esql.runtime.intervals import fields_of

        text = str(first.value).upper() + (f" TO {last.value.upper()}" if to is not None and last is not None else "")
        try:
            fields_of(text)
        except EsqlRunError:
            return Wrong(place_of(first), f"there is no INTERVAL {text}")
        return text

    def type(self, token: Token) -> DataType | Wrong:
        found = _TYPE.fullmatch(token.value)
        assert found is not None
        name, precision, scale = found[1].upper(), found[2], found[3]
        name = UNABBREVIATED.get(name, name)
        if precision is not None and name != "DECIMAL":
            return Wrong(place_of(token), f"{name} takes no size in brackets; only DECIMAL does")
        if precision is not None and not 0 <= int(scale or 0) <= int(precision) <= _DECIMAL_DIGITS_MAX:
            return Wrong(
                place_of(token),
                f"a DECIMAL has at most {_DECIMAL_DIGITS_MAX} digits, and no more behind the point than in all",
            )
        digits = None if precision is None else int(precision)
        return DataType(place_of(token), name, digits, None if scale is None else int(scale))

    def reference_type(self, word: Token) -> DataType:
        return DataType(place_of(word), "REFERENCE")

    def interval_type(self, word: Token, qualifier: Any) -> DataType | Wrong:
        if isinstance(qualifier, Wrong):
            return qualifier
        return DataType(place_of(word), "INTERVAL", qualifier=qualifier or "")


def _decimal_keyword(word: Token, text: Token) -> Literal | Wrong:
    """DECIMAL '1.50': also what a bare number cannot say, such as 'NAN' and '1E+200'."""
    from entrepot.esql.runtime.casting import cast

    try:
        return Literal(place_of(word), cast(text_of(text), "DECIMAL"))
    except EsqlRunError:
        return Wrong(place_of(text), "this is no DECIMAL; one is written DECIMAL '9.90'")


def text_of(token: Token) -> str:
    """What stands between the quotes."""
    return str(token.value[1:-1].replace("''", "'")) if token.type == "TEXT" else str(token.value)


class ExpressionBuilding(LiteralBuilding, PathBuilding):
    """Operators, functions with a syntax of their own, and SELECT."""

    def lone_expression(self, expression: Expression) -> Expression:
        return expression

    def group(self, expression: Expression) -> Expression:
        return expression

    def chain(self, *parts: Any) -> Expression:
        result: Expression = chain_of(parts[::2], parts[1::2])
        return result

    def unary(self, operator: Token, operand: Expression) -> Unary:
        return Unary(place_of(operator), operator.value.upper(), operand)

    def comparison(self, left: Expression, operator: Token, right: Expression) -> Binary:
        return Binary(place_of(operator), operator.value, left, right)

    def between(
        self, operand: Any, negated: Any, word: Token, symmetric: Any, low: Any, _: Token, high: Any
    ) -> Between:
        mirrored = symmetric is not None and symmetric.type == "SYMMETRIC"
        return Between(place_of(word), operand, low, high, negated is not None, mirrored)

    def among(self, operand: Any, negated: Any, word: Token, candidates: tuple[Expression, ...]) -> Among:
        return Among(place_of(word), operand, candidates, negated is not None)

    def like(self, operand: Any, negated: Any, word: Token, pattern: Any, _: Any, escape: Any) -> Like:
        return Like(place_of(word), operand, pattern, escape, negated is not None)

    def is_test(self, operand: Any, word: Token, negated: Any, sign: Token | None, what: Token) -> Is | Wrong:
        name = {"NUMBER": "NUM"}.get(what.type, what.type)
        if sign is not None:
            if name != "INF":
                return Wrong(place_of(sign), "only INF takes a sign here")
            name = sign.value + name
        return Is(place_of(word), operand, name, negated is not None)

    def interval_of(self, operand: Expression, qualifier: Any) -> IntervalOf | Wrong:
        return qualifier if isinstance(qualifier, Wrong) else IntervalOf(operand.place, operand, qualifier)

    # --- calls ------------------------------------------------------------------------------

    def arguments(self, *expressions: Expression) -> tuple[Expression, ...]:
        return expressions

    def call(self, path: Path, arguments: tuple[Expression, ...] | None) -> Call | Wrong:
        names = plain_names(path)
        if names is None:
            return Wrong(path.place, "a function's name is made of names and dots only")
        return Call(path.place, names, arguments or ())

    def case_expression(self, word: Token, operand: Any, *parts: Any) -> Case:
        *branches, otherwise, _ = parts
        return Case(place_of(word), operand, tuple(branches), otherwise)

    def case_branch(self, _: Token, when: Expression, __: Token, then: Expression) -> tuple[Expression, Expression]:
        return when, then

    def case_else(self, _: Token, expression: Expression) -> Expression:
        return expression

    def cast(self, word: Token, operands: tuple[Expression, ...], _: Token, type_: Any, *clauses: Any) -> Any:
        given: dict[str, Expression] = {}
        for token, expression in clauses:
            if token.type.lower() in given:
                return Wrong(place_of(token), f"{token.type} is given twice")
            given[token.type.lower()] = expression
        return Cast(place_of(word), operands, type_, **given)

    def cast_clause(self, word: Token, expression: Expression) -> tuple[Token, Expression]:
        return word, expression

    def trim(self, word: Token, side: Token | None, first: Any, source: Any) -> Call | Wrong:
        place, name = place_of(word), (str(word.value),)
        if source is None:
            if side is not None or first is None:
                return Wrong(place, "TRIM needs what it is to trim: TRIM(x), TRIM(LEADING '0' FROM x)")
            return Call(place, name, (first,))
        chosen = Literal(place if side is None else place_of(side), "BOTH" if side is None else side.type)
        return Call(place, name, (chosen, source) if first is None else (chosen, first, source), "FROM")

    def trimmed(self, _: Token, expression: Expression) -> Expression:
        return expression

    def substring(self, word: Token, source: Expression, where: tuple[str, Expression], length: Any) -> Call:
        arguments = (source, where[1]) if length is None else (source, where[1], length)
        return Call(place_of(word), (word.value,), arguments, where[0] + (" FOR" if length is not None else ""))

    def substring_place(self, word: Token, expression: Expression) -> tuple[str, Expression]:
        return word.type, expression

    def for_length(self, _: Token, expression: Expression) -> Expression:
        return expression

    def from_place(self, _: Token, expression: Expression) -> Expression:
        return expression

    def repeat_count(self, _: Token, expression: Expression) -> Expression:
        return expression

    def position(self, word: Token, sought: Any, _: Token, source: Any, start: Any, count: Any) -> Call:
        form = "IN" + (" FROM" if start is not None else "") + (" REPEAT" if count is not None else "")
        arguments = tuple(part for part in (sought, source, start, count) if part is not None)
        return Call(place_of(word), (word.value,), arguments, form)

    def overlay(self, word: Token, source: Any, _: Token, new: Any, start: Any, length: Any) -> Call:
        arguments = (source, new, start) if length is None else (source, new, start, length)
        return Call(place_of(word), (word.value,), arguments, "PLACING FROM" + (" FOR" if length is not None else ""))

    def extract(self, word: Token, field: Token, _: Token, source: Expression) -> Call | Wrong:
        if field.value.upper() not in _EXTRACTED:
            return Wrong(place_of(field), f"EXTRACT knows no {field.value}; it knows {', '.join(sorted(_EXTRACTED))}")
        return Call(place_of(word), (word.value,), (Literal(place_of(field), field.value.upper()), source), "FROM")

    def round_call(self, word: Token, number: Any, places: Any, mode: Token | None, name: Token | None) -> Call | Wrong:
        if mode is None or name is None:
            return Call(place_of(word), (word.value,), (number, places))
        if name.value.upper() not in _MODES:
            return Wrong(place_of(name), f"there is no MODE {name.value}; there is {', '.join(sorted(_MODES))}")
        chosen = Literal(place_of(name), name.value.upper())
        return Call(place_of(word), (word.value,), (number, places, chosen), "MODE")

    def bit_stream(self, word: Token, path: Any, *parts: Any) -> BitStream | Wrong:
        clauses = stream_clauses(parts, place_of(word))
        if isinstance(clauses, Wrong):
            return clauses
        if not isinstance(path, Path):
            return Wrong(path.place, "ASBITSTREAM begins with a field reference")
        return BitStream(place_of(word), path, **clauses)

    def stream_clause(self, word: Token, expression: Expression) -> tuple[str, Expression]:
        return word.type, expression

    def stream_place(self, expression: Any) -> tuple[str, Any]:
        return "", expression

    def passthru(self, _: Token, passthru: Passthru) -> Passthru:
        return passthru

    def passthru_arguments(self, text: Expression, source: Path | None, values: Any) -> Passthru:
        return Passthru(text.place, text, source, values or ())

    def passthru_listed(self, text: Expression, *arguments: Expression) -> Passthru:
        return Passthru(text.place, text, None, arguments)

    def to_source(self, _: Token, path: Path) -> Path:
        return path

    def values(self, _: Token, arguments: tuple[Expression, ...] | None) -> tuple[Expression, ...]:
        return arguments or ()

    # --- rows and lists -----------------------------------------------------------------------

    def the(self, word: Token, select: Expression) -> The:
        return The(place_of(word), select)

    def row_constructor(self, word: Token, *selected: Selected) -> RowOf:
        return RowOf(place_of(word), selected)

    def list_constructor(self, word: Token, _: Token, items: tuple[Expression, ...] | None) -> ListOf:
        return ListOf(place_of(word), items or ())

    def selected(self, expression: Expression, alias: tuple[Step, ...] | None) -> Selected:
        return Selected(expression.place, expression, alias or ())

    def as_path(self, _: Token, *steps: Step) -> tuple[Step, ...]:
        return steps

    def as_name(self, _: Token, name: Token) -> str:
        return str(name.value)

    def select_item(self, word: Token, expression: Expression) -> tuple[str, str, tuple[Selected, ...]]:
        return "item", "", (Selected(place_of(word), expression),)

    def aggregate(self, word: Token, operand: Any, alias: Any) -> tuple[str, str, tuple[Selected, ...]] | Wrong:
        name = word.value.upper()
        if isinstance(operand, Token):
            if name != "COUNT":
                return Wrong(place_of(operand), f"{name} needs an expression; only COUNT takes *")
            return "aggregate", name, ()
        return "aggregate", name, (Selected(operand.place, operand, alias or ()),)

    def source(self, path: Path, alias: str | None) -> FromSource:
        return FromSource(path.place, path, alias or "")

    def where(self, _: Token, expression: Expression) -> Expression:
        return expression

    def select(self, word: Token, *parts: Any) -> Select | Wrong:
        border = next(number for number, part in enumerate(parts) if isinstance(part, Token) and part.type == "FROM")
        chosen, sources, where = parts[:border], parts[border + 1 : -1], parts[-1]
        head = chosen[0]
        if isinstance(head, Wrong):
            return head
        form, aggregate = "list", ""
        if isinstance(head, Token):
            form, chosen = "all", ()
        elif isinstance(head, tuple):
            form, aggregate, chosen = head
        return Select(place_of(word), form, chosen, sources, where, aggregate)
