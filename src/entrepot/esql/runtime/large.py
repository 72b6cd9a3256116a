# SPDX-License-Identifier: Apache-2.0
"""Large strings: how long one may be, and what it costs of the budget of the program that makes it.

    SET s = s || s;        thirty times, and it would be a gigabyte

Short strings cost nothing, not even a look at the budget. A function whose
result may be longer than its argument asks `require_room` before it makes
it, or, where only the result tells its length, right after.
"""

from __future__ import annotations

from entrepot.errors.esql import EsqlRunError
from entrepot.limits import BODY_BYTES_MAX, KIB
from entrepot.models.tree_state import COPIES

LARGE = 64 * KIB
"""Shorter strings are not counted."""
STRING_MAX = BODY_BYTES_MAX
"""The longest CHARACTER, BLOB or BIT that a program can make: none that is longer fits into a message."""
BYTES_PER_STEP = 16 * KIB
"""Of a large string; copying so many takes about as long as a turn of a loop."""


def require_room(function: str, length: int) -> None:
    """
    Raises:
        EsqlRunError: The result would be longer than STRING_MAX.
        BudgetSpent: The program has made too many of these.
    """
    if length > STRING_MAX:
        problem = f"the result of {function} would be longer than {STRING_MAX} characters or bytes"
        raise EsqlRunError(problem, number=2420, inserts=(function,))
    if length > LARGE and COPIES.charge is not None:
        COPIES.charge(length // BYTES_PER_STEP)
