# SPDX-License-Identifier: Apache-2.0
"""Where the edge between sustained and not sustained may lie: a belief that every probe sharpens.

Bisection under noise (Horstein; Waeber 2013): the belief is a distribution
over rates, a probe is made at its median, and each side is weighted by how
far the answer can be trusted. A wrong answer then costs a few more probes;
plain bisection would never find back.
"""

from __future__ import annotations

import math

import numpy

PLACES = 2048
TRUST_MAX = 0.95
"""No answer is trusted further, however certain its probe was of itself: machines have neighbours."""
_HINT_SHARE = 0.5
_HINT_SPREAD = 0.05


class Edge:
    """A belief over rates between a sustained and a not sustained one, even on a logarithmic scale."""

    def __init__(self, low_per_s: float, high_per_s: float, hint_per_s: float | None = None) -> None:
        """`hint_per_s` is what an overloaded system delivered: often its capacity, sometimes not, so it gets half."""
        self._rates = numpy.geomspace(low_per_s, high_per_s, PLACES)
        self._belief = numpy.full(PLACES, 1.0 / PLACES)
        if hint_per_s is not None and low_per_s < hint_per_s < high_per_s:
            near = numpy.exp(-0.5 * (numpy.log(self._rates / hint_per_s) / _HINT_SPREAD) ** 2)
            self._belief = (1 - _HINT_SHARE) * self._belief + _HINT_SHARE * near / near.sum()

    def learn(self, rate_per_s: float, likely_sustained: float) -> None:
        """A probe at this rate was sustained with this probability."""
        likely = min(max(likely_sustained, 1 - TRUST_MAX), TRUST_MAX)
        self._belief *= numpy.where(self._rates >= rate_per_s, likely, 1 - likely)
        self._belief /= self._belief.sum()

    @property
    def median_per_s(self) -> float:
        return self.quantile(0.5)

    @property
    def width(self) -> float:
        """The middle 90 % of the belief, as a share of the rate."""
        return math.log(self.quantile(0.95) / self.quantile(0.05))

    def quantile(self, share: float) -> float:
        place = int(numpy.searchsorted(numpy.cumsum(self._belief), share))
        return float(self._rates[min(place, PLACES - 1)])
