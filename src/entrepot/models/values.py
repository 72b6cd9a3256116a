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


MONTHS_IN = {"YEAR": 12, "MONTH": 1}
SECONDS_IN = {"DAY": 86400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}
"""What one of each field of an interval is; it has either months or seconds."""


@dataclass(frozen=True, slots=True)
class Interval:
    """INTERVAL: a span of months, or of seconds, with the fields it is written in."""

    qualifier: str
    """YEAR, YEAR TO MONTH, MONTH, DAY, DAY TO HOUR, ..., SECOND: first and last field."""
    months: int = 0
    seconds: Decimal = Decimal(0)
