# SPDX-License-Identifier: Apache-2.0
"""What a selector says, as a tree of plain values between its text and its evaluation.

`NOT BETWEEN`, `NOT IN` and the like are a `Not` around the positive form,
which is how SQL-92 defines them; a signed value is `0 - value`. `kind` is
None where only the message can tell, that is, for identifiers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from entrepot.selectors.kinds import KINDS, ValueKind

ComparisonOperator = Literal["=", "<>", "<", "<=", ">", ">="]
ArithmeticOperator = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Expression:
    """What all have in common."""

    column: int
    """Where it starts in the selector, from 1."""
    depth: int
    """How many expressions stand inside one another at the deepest place; 0 without any inside."""

    @property
    def kind(self) -> ValueKind | None:
        return ValueKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class SelectorLiteral(Expression):
    value: str | int | float | bool

    @property
    def kind(self) -> ValueKind | None:
        return KINDS[type(self.value)]


@dataclass(frozen=True, slots=True)
class Identifier(Expression):
    name: str

    @property
    def kind(self) -> ValueKind | None:
        return None


@dataclass(frozen=True, slots=True)
class Brackets(Expression):
    """Round brackets. They are kept because they count as depth."""

    inner: Expression

    @property
    def kind(self) -> ValueKind | None:
        return self.inner.kind


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`first`, and from left to right what is done to it."""

    first: Expression
    steps: tuple[tuple[ArithmeticOperator, Expression], ...]

    @property
    def kind(self) -> ValueKind | None:
        return ValueKind.NUMBER


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    left: Expression
    operator: ComparisonOperator
    right: Expression


@dataclass(frozen=True, slots=True)
class BetweenTest(Expression):
    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class In(Expression):
    operand: Expression
    values: frozenset[str | int | float]
    values_kind: ValueKind


@dataclass(frozen=True, slots=True)
class LikeTest(Expression):
    operand: Expression
    pattern: str
    escape: str | None


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    operand: Expression


@dataclass(frozen=True, slots=True)
class Not(Expression):
    operand: Expression


@dataclass(frozen=True, slots=True)
class And(Expression):
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(Expression):
    operands: tuple[Expression, ...]
