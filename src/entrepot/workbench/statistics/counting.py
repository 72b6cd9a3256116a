# SPDX-License-Identifier: Apache-2.0
"""Every message of a trial accounted for: lost, duplicated, reordered, or a stray of another trial.

A sender numbers its messages without gaps, so each message is known by its
sender and number. *Lost* was sent and never came. *Duplicated* is every
coming after the first. *Reordered* came to a receiver after a higher number
of the same sender had come to it; between receivers no order is promised. A
repeated message may be both, as it comes late as well. A *stray* was not
sent in this trial, and counts as nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[numpy.int64]
NUMBER_BITS = 48
"""As in a body's first eight bytes: `sender << 48 | number`."""
SENDERS_MAX = 1 << 15
_NUMBER_MAX = 1 << NUMBER_BITS


@dataclass(frozen=True, slots=True)
class TrialAccount:
    sent: int
    """Different messages; of a publication, as many as it has receivers."""
    received: int
    """Comings, with all repetitions, without strays."""
    lost: int
    duplicated: int
    reordered: int
    strays: int


def account(
    sent_sender: ArrayLike,
    sent_number: ArrayLike,
    receiver: ArrayLike,
    sender: ArrayLike,
    number: ArrayLike,
    *,
    received_ns: ArrayLike | None = None,
    all_receive: Sequence[int] | None = None,
) -> TrialAccount:
    """Compare what was sent with what came.

    The rows of one receiver have to be in the order in which they came,
    unless `received_ns` gives their times; of equal times the order of the
    rows decides. With `all_receive` (publish/subscribe) each of these
    receivers should get every message; without it, one of them.
    """
    sent = numpy.unique(_keys(sent_sender, sent_number))
    came, by = _keys(sender, number), _integers(receiver)
    if received_ns is not None:
        order = numpy.argsort(_integers(received_ns), kind="stable")
        came, by = came[order], by[order]
    known = _within(came, sent)
    strays = int(len(came) - numpy.count_nonzero(known))
    came, by = (came[known], by[known]) if strays else (came, by)
    if all_receive is None:
        first_comings, expected = _distinct(came), len(sent)
    else:
        mine = numpy.isin(by, _integers(all_receive))
        strays += int(len(by) - numpy.count_nonzero(mine))
        came, by = came[mine], by[mine]
        first_comings = sum(_distinct(came[by == one]) for one in set(all_receive))
        expected = len(sent) * len(set(all_receive))
    return TrialAccount(
        sent=expected,
        received=len(came),
        lost=expected - first_comings,
        duplicated=len(came) - first_comings,
        reordered=_reordered(by, came),
        strays=strays,
    )


def _integers(values: ArrayLike) -> Integers:
    return numpy.asarray(values, dtype=numpy.int64)


def _keys(sender: ArrayLike, number: ArrayLike) -> Integers:
    senders, numbers = _integers(sender), _integers(number)
    if len(senders) != len(numbers):
        raise ValueError(f"{len(senders)} senders and {len(numbers)} numbers do not make messages")
    for name, values, limit in (("sender", senders, SENDERS_MAX), ("number", numbers, _NUMBER_MAX)):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < limit:
            raise ValueError(f"a message's {name} has to be from 0 to {limit - 1}")
    return (senders << NUMBER_BITS) | numbers


def _within(keys: Integers, sorted_keys: Integers) -> NDArray[numpy.bool_]:
    if not len(sorted_keys):
        return numpy.zeros(len(keys), dtype=numpy.bool_)
    places = numpy.minimum(numpy.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    found: NDArray[numpy.bool_] = sorted_keys[places] == keys
    return found


def _distinct(keys: Integers) -> int:
    ordered = numpy.sort(keys)
    return int(numpy.count_nonzero(numpy.diff(ordered))) + bool(len(ordered))


def _reordered(receivers: Integers, keys: Integers) -> int:
    """Comings below the highest number before them, of the same sender at the same receiver."""
    if not len(keys):
        return 0
    _, place = numpy.unique(receivers, return_inverse=True)
    senders, of_sender = numpy.unique(keys >> NUMBER_BITS, return_inverse=True)
    pair = place * len(senders) + of_sender
    # Pairs become contiguous and keep their order inside; their number goes above the message's, so that one running
    # maximum over everything begins anew with each pair. Pairs that did not meet leave gaps, which do no harm.
    _, pair = numpy.unique(pair, return_inverse=True)
    order = numpy.argsort(pair, kind="stable")
    ranked = (pair[order].astype(numpy.int64) << NUMBER_BITS) | (keys[order] & (_NUMBER_MAX - 1))
    return int(numpy.count_nonzero(ranked[1:] < numpy.maximum.accumulate(ranked)[:-1]))
