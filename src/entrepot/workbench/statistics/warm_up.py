# SPDX-License-Identifier: Apache-2.0
"""Where a series of observations becomes steady: MSER-5 (White 1997).

The series is cut into batches of five and the means of the batches are
looked at. Of all places to begin, MSER takes the one whose remaining mean
has the smallest standard error: cutting off more removes the warm-up, and
cutting off too much leaves too little. A minimum in the second half says
that the series had not become steady when it ended.
"""

from __future__ import annotations

import numpy
from numpy.typing import ArrayLike, NDArray

BATCH = 5
BATCHES_MIN = 10
"""With fewer there is no telling a warm-up from chance; so 50 observations at least."""
_TAIL = 5
"""The last places are no candidates: few batches lie close together by chance, and one batch has no variance at all."""
_ALIKE = 1e-9
"""Of places that differ by rounding only, the first counts."""


def truncation(values: ArrayLike) -> int | None:
    """How many observations to leave out at the beginning; None when the series does not become steady in time.

    A constant series needs nothing left out. Fewer than 50 observations are
    too short to tell, which is None as well. What is left over after the last
    whole batch is not looked at.
    """
    means = _batch_means(values)
    if len(means) < BATCHES_MIN:
        return None
    errors = standard_errors_squared(means)[: len(means) - _TAIL + 1]
    batches = int(numpy.flatnonzero(errors <= errors.min() + _ALIKE * errors[0])[0])
    return None if batches > len(means) / 2 else batches * BATCH


def standard_errors_squared(means: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """MSER for every number of leading batches left out: the rest's sum of squared deviations by its squared length."""
    # Around the common mean, or the squares of large values would swallow the differences between them.
    centred = means - means.mean()
    length = numpy.arange(len(means), 0, -1, dtype=numpy.float64)
    total = numpy.cumsum(centred[::-1])[::-1]
    squares = numpy.cumsum((centred**2)[::-1])[::-1]
    return numpy.maximum(squares - total**2 / length, 0.0) / length**2


def _batch_means(values: ArrayLike) -> NDArray[numpy.float64]:
    series = numpy.asarray(values, dtype=numpy.float64)
    batches = len(series) // BATCH
    means: NDArray[numpy.float64] = series[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    return means
