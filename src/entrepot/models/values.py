# SPDX-License-Identifier: Apache-2.0
"""The ESQL types that Python has no type for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, order=True)
class Bits:
    """BIT: any number of binary digits."""

    digits: str
    """Only 0 and 1, the first bit first."""


@dataclass(frozen=True, slots=True)
class Interval:
    """INTERVAL: a span of months, or of seconds, with the fields it is written in."""

    qualifier: str
    """YEAR, YEAR TO MONTH, MONTH, DAY, DAY TO HOUR, ..., SECOND: first and last field."""
    months: int = 0
    seconds: Decimal = Decimal(0)
