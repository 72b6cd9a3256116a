# SPDX-License-Identifier: Apache-2.0
"""Instances step by step: their messages come from a source that a test has written, and time passes only in waits.

source = Script(clock, message("1"), None, message("2"))      None: nothing comes for as long as it is waited for
instance = stepped(stage, flow, source)
instance.run()                                                until the source has nothing more
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import FlowWorld
from entrepot.flows.journey import Earlier, Journey
from entrepot.flows.live.deployment import Deployment
from entrepot.flows.live.instance import STOP, Instance
from entrepot.message import Message

from .staged import Stage, drawn, reads, writes
from .stepped import SteppedTime


def message(body: str, **fields: Any) -> Message:
    return Message(body.encode(), message_id=body.encode().ljust(24), persistent=True, **fields)


class Script:
    """Messages, pauses and errors in the order of a test; what was given back comes again."""

    def __init__(self, clock: SteppedTime, *steps: Message | Exception | None, again: bool = True) -> None:
        self._clock = clock
        self._steps = list(steps)
        self._again = again
        self._out: list[Message] = []
        self.stop: Callable[[], object] = lambda: None
        """Called when all is through."""
        self.waits: list[float] = []
        self.asked_at_s: list[float] = []
        self.told: list[str] = []
        """What it has heard, with the number of messages that this is about."""

    def next(self, wait_s: float) -> Message | None:
        self.waits.append(wait_s)
        self.asked_at_s.append(self._clock.passed_s)
        if not self._steps:
            if not self._out:
                self.stop()
                self._clock.advance(wait_s)
            return None
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if step is None:
            self._clock.advance(wait_s)
        else:
            self._out.append(step)
        return step

    def committed(self) -> None:
        self._hear("committed")

    def backed_out(self) -> None:
        if self._again:
            self._steps[:0] = self._out
        self._hear("backed out")

    def left_in_doubt(self) -> None:
        self._hear("in doubt")

    def close(self) -> None:
        self._hear("closed")

    @property
    def pauses_s(self) -> list[float]:
        """Between one time that it was waited for and the next."""
        asked = [at_s for at_s, wait_s in zip(self.asked_at_s, self.waits, strict=True) if wait_s]
        return [round(later - before, 2) for before, later in pairwise(asked)]

    def _hear(self, what: str) -> None:
        self.told.append(f"{what} {len(self._out)}")
        self._out = []


class Outcomes:
    """What becomes of messages, in the place of `Kernel.process`: each fails as the test says, until all are well."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.seen: list[tuple[str, int]] = []
        """Each message, and how often it is held to have been tried."""
        self.careful: list[bool] = []

    def __call__(self, point: Any, message: Message, world: FlowWorld, earlier: Earlier) -> Journey:
        self.seen.append((message.body.decode(), earlier.tries))
        self.careful.append(world.careful)
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error
        return Journey(message, world)


def stepped(stage: Stage, flow: FlowDefinition, *sources: Script, **options: Any) -> Instance:
    """An instance that is not open yet, with a source at each of its points."""
    process = options.pop("process", None)
    deployment = Deployment(flow, stage.url, **{"run": 1, **options})
    instance = Instance(deployment, 0, process=process)
    for point, source in zip(instance.kernel.points, sources, strict=True):
        point.queue = ""
        point.source = lambda source=source: source  # type: ignore[misc]
    if sources:
        sources[-1].stop = lambda: stage.connection.instruct(deployment.claim_prefix, STOP)
    return instance


def flow_of_inputs(stage: Stage, count: int) -> FlowDefinition:
    """In0, In1 and so on, each linked to Out."""
    nodes = {f"In{number}": reads(stage.queue()) for number in range(count)}
    return drawn(*(f"{name} -> Out" for name in nodes), Out=writes(stage.queue()), **nodes)


def orders(*numbers: object) -> list[Message]:
    return [message(str(number)) for number in numbers]


def ran(instance: Instance, *errors: Exception | None) -> Outcomes:
    """Run to the end, with messages that fail like this, one after the other."""
    outcomes = Outcomes(*errors)
    instance.kernel.process = outcomes  # type: ignore[method-assign]
    instance.run()
    return outcomes
