# SPDX-License-Identifier: Apache-2.0
"""A sender and the end of a channel that it meets: who that is, and what is over when it is told to stop."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.channels.sender import SenderChannel, Status
from entrepot.errors import SequenceMismatch
from recovery.channel_pair import Pair


def test_a_partner_of_another_name_gets_nothing_though_it_remembers_the_same(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(0)
        pair.channel.start()
        await pair.delivered(1)
        pair.channel.stop()
        await pair.stopped()
        accept = pair.receivers.accept
        # It does not look at whom the sender wants, and answers with another name.
        pair.receivers.accept = lambda link, hello, *rest: accept(link, replace(hello, target=""), *rest)  # type: ignore[method-assign]
        pair.b.settings = replace(pair.b.settings, name="C")
        pair.put(1)
        with pytest.raises(SequenceMismatch, match="at C"):
            await pair.channel.ping()
        pair.channel.start()
        await pair.stopped()
        assert isinstance(pair.channel.problem, SequenceMismatch)
        assert (pair.depth(), pair.got()) == (1, [0])

    with_pair(work)


def test_who_hears_that_a_channel_has_stopped_can_start_it_at_once(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        heard: list[Status] = []

        def changed(channel: SenderChannel) -> None:
            heard.append(channel.state)
            if heard.count(Status.STOPPED) == 1 and channel.state is Status.STOPPED:
                channel.start()

        pair.channel = pair.new_channel(on_change=changed)
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.channel.stop(force=True)
        pair.put(1)
        await pair.stopped(Status.RUNNING)
        await pair.delivered(1)
        assert len(pair.wires) == 2

    with_pair(work)
