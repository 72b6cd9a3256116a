# SPDX-License-Identifier: Apache-2.0
"""A load shape: which processes act on a running system, and what they note.

A load is given a `Stage` (measuring/stage.py): the running system, the
point's effective parameters, and how much effort to spend. It makes one
trial, or several when it searches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from entrepot.workbench.scenario import Parameter
from entrepot.workbench.systems.system import Ability, System

if TYPE_CHECKING:
    from entrepot.workbench.measuring.stage import Stage


class Load(ABC):
    name: ClassVar[str]
    needs: ClassVar[frozenset[Ability]]
    """What a system must be able to do."""
    parameters: ClassVar[Mapping[str, Parameter]]
    """What it reads from a point, with what holds when the point is silent."""

    repeats: ClassVar[bool] = True
    """Whether a quick run repeats it; a search repeats by itself and gives its own interval."""

    pipelines: ClassVar[bool] = False
    """Whether its senders need not wait for answers, so that the two forms of a system differ."""

    @classmethod
    def unsuitable(cls, system: type[System], parameters: Mapping[str, Parameter]) -> str:
        """Why this system cannot be put under this load; empty when it can."""
        # A queue that may be full is one that every put asks.
        if system.is_answered and (not cls.pipelines or parameters.get("queue_limit_bytes")):
            return "its senders wait for answers under this load in any form"
        missing = sorted(cls.needs - system.abilities)
        return f"it has no {', '.join(missing)}" if missing else ""

    @classmethod
    def duration_s(cls, seconds: float, parameters: Mapping[str, Parameter]) -> float:
        """About how long one visit takes under load, for the estimate of the time that is left."""
        return seconds * float(parameters.get("seconds_factor", 1))

    @abstractmethod
    def run(self, stage: Stage) -> None:
        """Put the system under load; `stage.trial()` keeps what is seen."""
