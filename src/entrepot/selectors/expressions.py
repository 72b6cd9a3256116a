# SPDX-License-Identifier: Apache-2.0
"""What a selector says, as a tree of plain values between its text and its evaluation.

`NOT BETWEEN`, `NOT IN` and the like are a `Not` around the positive form,
which is how SQL-92 defines them; a signed value is `0 - value`. `kind` is
None where only the message can tell, that is, for identifiers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from entrepot.selectors.kinds import KINDS, Kind

ComparisonOperator = OneOf["=", "<>", "<", "<=", ">", ">="]
ArithmeticOperator = OneOf["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Expression:
    """What all have in common."""

    column: int
    """Where it starts in the selector, from 1."""
    depth: int
    """How many expressions stand inside one another at the deepest place; 0 without any inside."""

    @property
    def kind(self) -> Kind | None:
        return Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    value: str | int | float | bool

    @property
    def kind(self) -> Kind | None:
        return KINDS[type(self.value)]


@dataclass(frozen=True, slots=True)
class Identifier(Expression):
    name: str

    @property
    def kind(self) -> Kind | None:
        return None


@dataclass(frozen=True, slots=True)
class Group(Expression):
    """Round brackets. They are kept because they count as depth."""

    inner: Expression

    @property
    def kind(self) -> Kind | None:
        return self.inner.kind


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`first`, and from left to right what is done to it."""

    first: Expression
    steps: tuple[tuple[ArithmeticOperator, Expression], ...]

    @property
    def kind(self) -> Kind | None:
        return Kind.NUMBER


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    left: Expression
    operator: ComparisonOperator
    right: Expression


@dataclass(frozen=True, slots=True)
class Between(Expression):
    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class In(Expression):
    operand: Expression
    values: frozenset[str | int | float]
    values_kind: Kind


@dataclass(frozen=True, slots=True)
class Like(Expression):
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
