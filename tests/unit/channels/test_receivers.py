# SPDX-License-Identifier: Apache-2.0
"""Who may be the other end of a channel, before anything is said about its history."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.channels.receivers import Receivers
from entrepot.engine.definitions import Channel
from entrepot.errors import ChannelNotAvailable, EntrepotError, InvalidName, WrongManager
from entrepot.server.session_registry import Identity
from entrepot.server.wire.verbs import ChannelHello, Verb
from unit.server.guests import SAMPLES, House, Work

Inside = Callable[[Work], None]
DEFINITION = Channel(name="IN", channel_type="RCVR")


class Answers:
    """A connection that keeps what it is told."""

    def __init__(self) -> None:
        self.reader = SimpleNamespace(frame_bytes_max=0)
        self.address = "10.0.0.1"
        self.said: list[int] = []
        self.closed_with: list[EntrepotError | None] = []

    def send(self, verb: int, number: int, payload: Any) -> None:
        self.said.append(verb)

    def close(self, error: EntrepotError | None = None) -> None:
        self.closed_with.append(error)

    def hold(self) -> None: ...

    def resume(self) -> None: ...


def hello(**changes: Any) -> ChannelHello:
    found: ChannelHello = replace(SAMPLES[Verb.CHANNEL_HELLO], **changes)
    return found


def accept(receivers: Receivers, **changes: Any) -> Any:
    return receivers.accept(Answers(), hello(**changes), DEFINITION, Identity("mca"))


def test_a_sender_that_may_come_is_welcomed_and_shown(inside: Inside) -> None:
    async def work(house: House) -> None:
        receivers = Receivers(house.registry)
        for target in ("", "QM1"):
            receiver = accept(receivers, target=target)
            assert receiver._link.said == [Verb.CHANNEL_WELCOME]
            assert [row["RQMNAME"] for row in receivers.status()] == ["QM2"]
            receiver.end(None)
        assert receivers.status() == []

    inside(work)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"manager": ""}, InvalidName),
        ({"manager": "two words"}, InvalidName),
        ({"manager": "M" * 49}, InvalidName),
        ({"target": "QM9"}, WrongManager),
        ({"sequence_wrap": 100}, ChannelNotAvailable),
    ],
)
def test_a_sender_that_may_not_come_is_refused_and_nothing_is_kept(
    inside: Inside, changes: dict[str, Any], error: type[EntrepotError]
) -> None:
    async def work(house: House) -> None:
        receivers = Receivers(house.registry)
        with pytest.raises(error):
            accept(receivers, **changes)
        assert receivers.status() == []
        assert house.registry.sessions == {}

    inside(work)


def test_an_operator_keeps_out_whom_he_has_stopped(inside: Inside) -> None:
    async def work(house: House) -> None:
        receivers = Receivers(house.registry)
        receivers.stopped.add("IN")
        with pytest.raises(ChannelNotAvailable):
            accept(receivers)
        receivers.stopped.clear()
        receiver = accept(receivers)
        receivers.close("OUT", ChannelNotAvailable("OUT", "stopped"))
        assert not receiver.closed
        receivers.close("IN", stopped := ChannelNotAvailable("IN", "stopped"))
        assert (receiver.closed, receiver._link.closed_with) == (True, [stopped])

    inside(work)


def test_a_second_connection_of_a_sender_takes_the_place_of_the_first(inside: Inside) -> None:
    async def work(house: House) -> None:
        receivers = Receivers(house.registry)
        first, second, other = accept(receivers), accept(receivers), accept(receivers, manager="QM3")
        assert [type(error) for error in first._link.closed_with] == [ChannelNotAvailable]
        assert {row["RQMNAME"] for row in receivers.status()} == {"QM2", "QM3"}
        first.lost()
        assert len(receivers.status()) == 2
        for each in (second, other):
            each.end(None)
        assert receivers.status() == []

    inside(work)
