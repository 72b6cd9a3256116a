# SPDX-License-Identifier: Apache-2.0
"""From the text of a selector to its expression, or to the mistake in it.

Lark calls a method of the builder for each rule of selector.lark, at the
moment it has read it. No tree of Lark's is made and nothing here is
recursive, so that a text of ten thousand brackets is a mistake like others.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from entrepot import limits
from entrepot.selectors import type_checks
from entrepot.selectors.expressions import (
    And,
    Arithmetic,
    ArithmeticOperator,
    BetweenTest,
    Brackets,
    Comparison,
    ComparisonOperator,
    Expression,
    Identifier,
    In,
    IsNull,
    LikeTest,
    Not,
    Or,
    SelectorLiteral,
)
from entrepot.selectors.mistakes import (
    SelectorMistake,
    column_of,
    nested_too_deeply,
    unexpected_character,
    unexpected_token,
)

_LONG_MAX = 2**63
"""Also the magnitude of the smallest, which is written as this number with a minus before it."""


def parse(text: str) -> Expression:
    """The condition that a selector's text says.

    Raises:
        Mistake: The text says none.
    """
    parser = _parser()
    try:
        expression = cast(Expression, parser.parse(text))
    except UnexpectedCharacters as error:
        raise unexpected_character(error, text) from None
    except UnexpectedToken as error:
        raise unexpected_token(error, text, parser) from None
    type_checks.require_condition(expression, "a selector")
    return expression


@lru_cache(maxsize=1)
def _parser() -> Lark:
    # The basic lexer, unlike Lark's contextual one, keeps keywords reserved in every place.
    return Lark.open(
        "selector.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        maybe_placeholders=True,
        transformer=_ExpressionBuilder(),
    )


def _depth(column: int, *parts: Expression) -> int:
    depth = 1 + max(part.depth for part in parts)
    if depth > limits.SELECTOR_DEPTH_MAX:
        raise nested_too_deeply(column)
    return depth


@v_args(inline=True)
class _ExpressionBuilder(Transformer[Token, Expression]):
    """One method for each rule."""

    def disjunction(self, *operands: Expression) -> Expression:
        for operand in operands:
            type_checks.require_condition(operand, "each side of OR")
        column = operands[0].column
        return Or(column, _depth(column, *operands), operands)

    def conjunction(self, *operands: Expression) -> Expression:
        for operand in operands:
            type_checks.require_condition(operand, "each side of AND")
        column = operands[0].column
        return And(column, _depth(column, *operands), operands)

    def negated(self, word: Token, operand: Expression) -> Expression:
        type_checks.require_condition(operand, "what NOT negates")
        return _not(column_of(word), operand)

    def comparison(self, left: Expression, symbol: Token, right: Expression) -> Expression:
        operator = cast(ComparisonOperator, "<>" if symbol == "!=" else str(symbol))
        if operator not in ("=", "<>"):
            type_checks.require_orderable((left, right), f"'{operator}'")
        type_checks.require_comparable((left, right), f"'{operator}'")
        return Comparison(left.column, _depth(left.column, left, right), left, operator, right)

    def between(self, operand: Expression, low: Expression, high: Expression) -> Expression:
        type_checks.require_orderable((operand, low, high), "BETWEEN")
        type_checks.require_comparable((operand, low, high), "BETWEEN")
        return BetweenTest(operand.column, _depth(operand.column, operand, low, high), operand, low, high)

    def not_between(self, operand: Expression, low: Expression, high: Expression) -> Expression:
        return _not(operand.column, self.between(operand, low, high))

    def among(self, operand: Expression, *members: Expression) -> Expression:
        values, kind = type_checks.list_values(members)
        type_checks.require_comparable((members[0], operand), "IN")
        return In(operand.column, _depth(operand.column, operand), operand, values, kind)

    def not_among(self, operand: Expression, *members: Expression) -> Expression:
        return _not(operand.column, self.among(operand, *members))

    def like(self, operand: Expression, pattern: Expression, escape: Expression | None) -> Expression:
        type_checks.require_like_operand(operand)
        pattern_text, escape_text = type_checks.like_pattern(pattern, escape)
        return LikeTest(operand.column, _depth(operand.column, operand), operand, pattern_text, escape_text)

    def not_like(self, operand: Expression, pattern: Expression, escape: Expression | None) -> Expression:
        return _not(operand.column, self.like(operand, pattern, escape))

    def is_null(self, operand: Expression) -> Expression:
        return IsNull(operand.column, _depth(operand.column, operand), operand)

    def is_not_null(self, operand: Expression) -> Expression:
        return _not(operand.column, self.is_null(operand))

    def sum(self, first: Expression, *steps: Any) -> Expression:
        return _arithmetic(first, steps)

    def product(self, first: Expression, *steps: Any) -> Expression:
        return _arithmetic(first, steps)

    def signed(self, sign: Token, operand: Expression) -> Expression:
        type_checks.require_number(operand, sign)
        column = column_of(sign)
        if isinstance(operand, SelectorLiteral):
            value = cast(float, operand.value)
            return SelectorLiteral(column, 0, -value if sign == "-" else value)
        symbol = cast(ArithmeticOperator, str(sign))
        return Arithmetic(column, _depth(column, operand), SelectorLiteral(column, 0, 0), ((symbol, operand),))

    def group(self, bracket: Token, inner: Expression) -> Expression:
        column = column_of(bracket)
        return Brackets(column, _depth(column, inner), inner)

    def text(self, token: Token) -> Expression:
        return SelectorLiteral(column_of(token), 0, token[1:-1].replace("''", "'"))

    def exact(self, token: Token) -> Expression:
        return _integer(token, token.rstrip("lL"), 10)

    def hexadecimal(self, token: Token) -> Expression:
        return _integer(token, token.rstrip("lL"), 16)

    def approximate(self, token: Token) -> Expression:
        value = float(token.rstrip("fFdD"))
        if math.isinf(value):
            raise SelectorMistake(column_of(token), "this number is too large for a 64-bit float")
        return SelectorLiteral(column_of(token), 0, value)

    def true(self, token: Token) -> Expression:
        return SelectorLiteral(column_of(token), 0, True)

    def false(self, token: Token) -> Expression:
        return SelectorLiteral(column_of(token), 0, False)

    def identifier(self, token: Token) -> Expression:
        return Identifier(column_of(token), 0, str(token))

    def quoted_identifier(self, token: Token) -> Expression:
        return Identifier(column_of(token), 0, token[1:-1].replace('""', '"'))


def _not(column: int, operand: Expression) -> Expression:
    return Not(column, _depth(column, operand), operand)


def _arithmetic(first: Expression, steps: tuple[Any, ...]) -> Expression:
    symbols, operands = cast(tuple[ArithmeticOperator, ...], tuple(map(str, steps[0::2]))), steps[1::2]
    type_checks.require_number(first, symbols[0])
    for symbol, operand in zip(symbols, operands, strict=True):
        type_checks.require_number(operand, symbol)
    depth = _depth(first.column, first, *operands)
    return Arithmetic(first.column, depth, first, tuple(zip(symbols, operands, strict=True)))


def _integer(token: Token, digits: str, number_base: int) -> Expression:
    # Python itself refuses to read some thousand digits, so their number is looked at first.
    if len(digits.lstrip("0xX")) > len(str(_LONG_MAX)) or int(digits, number_base) > _LONG_MAX:
        raise SelectorMistake(
            column_of(token), "this number is too large for a 64-bit integer; write it with a point or exponent"
        )
    return SelectorLiteral(column_of(token), 0, int(digits, number_base))
