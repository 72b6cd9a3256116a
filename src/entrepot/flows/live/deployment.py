# SPDX-License-Identifier: Apache-2.0
"""What is to run, where, and against which queue manager and databases: all that a task is told.

A deployment is plain data that pickles; a task makes everything else itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from entrepot.flows.definition import FlowDefinition

CLAIM_HEAD = "flow/"
MESSAGE_S_MAX = 300.0
"""How long a message may keep an instance; longer where one of its nodes says itself that it waits longer."""
ATTEMPTS_MAX = 1000
"""Epochs are run * ATTEMPTS_MAX + attempt, so a new run comes before every attempt of an older one."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One flow as one execution group runs it."""

    flow: FlowDefinition
    url: str
    """The queue manager, as tasks reach it: unix: or mq:."""
    databases: Mapping[str, str] = field(default_factory=dict)
    """SQLAlchemy's URL of each data source; the name "" stands for all that have no other."""
    group: str = "default"
    """The execution group."""
    instances: int = 1
    batch_max: int = 100
    """Messages that may share a unit of work."""
    batch_s: float = 0.02
    """A unit of work that has taken so long gets no more messages, so that none waits for a slow neighbour."""
    message_s_max: float = MESSAGE_S_MAX
    """How long a message may keep its instance, before the instance's process is ended; 0: for ever."""
    node_statistics: bool = False
    user_trace: str = ""
    """A file for the user trace, to which each instance adds its number; none when empty."""
    user: str = ""
    password: str = field(default="", repr=False)
    run: int = 0
    """Its number; a higher one fences those before it."""

    @property
    def claim_prefix(self) -> str:
        return f"{CLAIM_HEAD}{self.flow.name}/{self.group}/"

    def claim_name(self, instance: int) -> str:
        """The claim under which an instance works."""
        return f"{self.claim_prefix}{instance}"
