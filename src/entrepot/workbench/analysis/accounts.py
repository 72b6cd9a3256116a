# SPDX-License-Identifier: Apache-2.0
"""Every message of a trial accounted for, as its load delivers: to one receiver, or to each of a topic's."""

from __future__ import annotations

from collections.abc import Iterable

import numpy
from numpy.typing import NDArray

from entrepot.workbench.analysis.observed import Observed
from entrepot.workbench.statistics.counting import NUMBER_BITS, SENDERS_MAX, TrialAccount, account

NOTHING = TrialAccount(0, 0, 0, 0, 0, 0)


def account_of(observed: Observed) -> TrialAccount:
    """All messages of the trial, those outside of its window too; a trial without any has nothing to account for."""
    if not len(observed.sent.sender):
        return NOTHING
    received = observed.received
    foreign = ~_is_header(received.sender, received.number)
    compare = _by_topic if observed.record.load == "publish" else _compare
    found = compare(observed, ~foreign)
    strays = int(numpy.count_nonzero(foreign))
    return _sum([found, TrialAccount(0, 0, 0, 0, 0, strays)])


def _by_topic(observed: Observed, ours: NDArray[numpy.bool_]) -> TrialAccount:
    """As the load deals them out: topic n has the publishers and the subscribers whose number leaves n."""
    topics, receivers = (int(observed.record.effective.get(name, "1")) for name in ("topics", "receivers"))
    return _sum(
        _compare(
            observed,
            ours & (observed.received.receiver % topics == topic),
            observed.sent.sender % topics == topic,
            range(topic, receivers, topics),
        )
        for topic in range(topics)
    )


def _compare(
    observed: Observed,
    came: NDArray[numpy.bool_],
    went: NDArray[numpy.bool_] | slice = slice(None),
    all_receive: range | None = None,
) -> TrialAccount:
    sent, received = observed.sent, observed.received
    return account(
        sent.sender[went],
        sent.number[went],
        received.receiver[came],
        received.sender[came],
        received.number[came],
        all_receive=all_receive,
    )


def _is_header(senders: NDArray[numpy.int64], numbers: NDArray[numpy.int64]) -> NDArray[numpy.bool_]:
    """Whether eight bytes can be those of a message of ours; anything may be found in a queue that others use."""
    found: NDArray[numpy.bool_] = (
        (senders >= 0) & (senders < SENDERS_MAX) & (numbers >= 0) & (numbers < 1 << NUMBER_BITS)
    )
    return found


def _sum(accounts: Iterable[TrialAccount]) -> TrialAccount:
    rows = [(one.sent, one.received, one.lost, one.duplicated, one.reordered, one.strays) for one in accounts]
    return TrialAccount(*(sum(column) for column in zip(*rows, strict=True)))
