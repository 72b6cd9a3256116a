# SPDX-License-Identifier: Apache-2.0
"""What a sender takes from its transmission queue for one batch, without a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.channels import batch as batch_module
from entrepot.channels.batch import Batch
from entrepot.channels.terms import Terms
from entrepot.engine.definitions import Channel, LocalQueue
from entrepot.message import Message
from unit.server.guests import House, Work

Inside = Callable[[Work], None]
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


class Sending:
    """A transmission queue B with messages, and a batch of a channel that serves it."""

    def __init__(self, house: House, *sizes: int, persistent: bool = True, **options: Any) -> None:
        self.house = house
        house.host.define(LocalQueue(name="B", usage="XMITQ"), replace=False)
        self.definition = Channel(name="A.TO.B", channel_type="SDR", transmission_queue="B", **options)
        for size in sizes:
            house.host.put("Q@B", Message(b"x" * size), persistent=persistent)
        self.batch = Batch(house.host.manager, Terms.of(self.definition), 10)

    def take(self) -> tuple[list[tuple[int, int]], bool]:
        """Sequence numbers and sizes, and whether there are no more."""
        found, drained = self.batch.take(self.house.registry, self.definition)
        return [(sequence, len(message.body)) for sequence, message in found], drained

    def end(self) -> None:
        self.house.registry.engine.back_out(self.batch.unit)


def test_a_body_as_long_as_the_channel_takes_is_sent_and_a_longer_one_is_not(inside: Inside) -> None:
    async def work(house: House) -> None:
        sending = Sending(house, 0, 100, 101, 99, body_bytes_max=100)
        assert sending.take() == ([(11, 0), (12, 100), (13, 99)], True)
        await house.until(lambda: house.depth(DEAD) == 1)
        assert [len(message.body) for message in house.host.browse(DEAD, None, None, 9)[0]] == [101]
        sending.end()
        assert house.depth("B") == 3

    inside(work)


@pytest.mark.parametrize(("options", "taken"), [({"batch_size": 2}, 2), ({"batch_bytes_max": 20}, 2), ({}, 4)])
def test_a_batch_is_full_with_so_many_messages_or_bytes(inside: Inside, options: dict[str, int], taken: int) -> None:
    async def work(house: House) -> None:
        sending = Sending(house, *[10] * 4, **options)
        found, drained = sending.take()
        assert (len(found), drained) == (taken, taken == 4)
        assert sending.batch.is_full == (taken == 2)
        assert (sending.batch.messages, sending.batch.body_bytes) == (taken, 10 * taken)
        assert sending.take() == ([], taken == 4)
        sending.end()

    inside(work)


def test_others_get_the_engine_after_so_many_messages_or_bytes(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "_TAKEN_AT_ONCE", 3)
    monkeypatch.setattr(batch_module, "_TAKEN_BYTES", 20)

    async def work(house: House) -> None:
        sending = Sending(house, 1, 1, 1, 10, 10, 1)
        taken = []
        while not taken or not taken[-1][1]:
            taken.append(sending.take())
        assert taken == [([(11, 1), (12, 1), (13, 1)], False), ([(14, 10), (15, 10)], False), ([(16, 1)], True)]
        sending.end()

    inside(work)


@pytest.mark.parametrize("fast", [True, False])
def test_fast_messages_are_outside_of_the_batch_and_gone(inside: Inside, fast: bool) -> None:
    async def work(house: House) -> None:
        sending = Sending(house, 5, 6, persistent=False, nonpersistent_fast=fast)
        found, _ = sending.take()
        assert found == ([(0, 5), (0, 6)] if fast else [(11, 5), (12, 6)])
        sending.end()
        assert house.depth("B") == (0 if fast else 2)

    inside(work)


def test_sequence_numbers_go_on_behind_the_last_and_begin_again_at_one(inside: Inside) -> None:
    async def work(house: House) -> None:
        sending = Sending(house, 1, 1, 1, sequence_wrap=12)
        assert [sequence for sequence, _ in sending.take()[0]] == [11, 12, 1]
        sending.end()

    inside(work)
