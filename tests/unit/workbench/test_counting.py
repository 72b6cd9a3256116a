# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter, defaultdict

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.workbench.statistics.counting import TrialAccount, account

Sent = list[tuple[int, int]]
Came = list[tuple[int, int, int]]


def columns(rows: list[tuple[int, ...]], width: int) -> list[list[int]]:
    return [[row[at] for row in rows] for at in range(width)]


def counted(sent: Sent, came: Came, **more: object) -> TrialAccount:
    return account(*columns(sent, 2), *columns(came, 3), **more)


def plainly(sent: Sent, came: Came, receivers: list[int] | None = None) -> TrialAccount:
    """The same, message by message."""
    known = set(sent)
    ours = [row for row in came if row[1:] in known and (receivers is None or row[0] in receivers)]
    comings = Counter(row if receivers is not None else row[1:] for row in ours)
    expected = len(known) * (1 if receivers is None else len(receivers))
    highest: dict[tuple[int, int], int] = defaultdict(lambda: -1)
    reordered = 0
    for receiver, sender, number in ours:
        reordered += number < highest[receiver, sender]
        highest[receiver, sender] = max(highest[receiver, sender], number)
    return TrialAccount(
        sent=expected,
        received=len(ours),
        lost=expected - len(comings),
        duplicated=sum(comings.values()) - len(comings),
        reordered=reordered,
        strays=len(came) - len(ours),
    )


def test_everything_came_once_and_in_order() -> None:
    found = counted([(0, 1), (0, 2), (1, 1)], [(5, 0, 1), (6, 1, 1), (5, 0, 2)])
    assert found == TrialAccount(sent=3, received=3, lost=0, duplicated=0, reordered=0, strays=0)


def test_lost_twice_and_stray_by_hand() -> None:
    found = counted([(0, 1), (0, 2), (0, 3)], [(0, 0, 1), (0, 0, 3), (0, 0, 3), (0, 7, 1), (0, 0, 4)])
    assert found == TrialAccount(sent=3, received=3, lost=1, duplicated=1, reordered=0, strays=2)


def test_order_is_promised_to_each_receiver_only() -> None:
    sent = [(0, 1), (0, 2), (0, 3)]
    assert counted(sent, [(0, 0, 2), (1, 0, 1), (1, 0, 3)]).reordered == 0
    assert counted(sent, [(0, 0, 2), (0, 0, 1), (0, 0, 3)]).reordered == 1
    assert counted(sent, [(0, 0, 3), (0, 0, 1), (0, 0, 2)]).reordered == 2


def test_times_put_rows_in_order_and_equal_times_leave_them() -> None:
    sent, came = [(0, 1), (0, 2), (0, 3)], [(0, 0, 3), (0, 0, 1), (0, 0, 2)]
    assert counted(sent, came, received_ns=[30, 10, 20]).reordered == 0
    assert counted(sent, came, received_ns=[5, 5, 5]).reordered == 2


def test_publication_goes_to_every_subscriber() -> None:
    found = counted([(0, 1), (0, 2)], [(1, 0, 1), (2, 0, 1), (1, 0, 2), (1, 0, 2)], all_receive=[1, 2])
    assert (found.sent, found.lost, found.duplicated) == (4, 1, 1)


def test_nothing_sent_and_nothing_came() -> None:
    assert counted([], []) == TrialAccount(0, 0, 0, 0, 0, 0)
    assert counted([], [(0, 0, 1)]).strays == 1
    assert counted([(0, 1)], []).lost == 1


def test_numbers_that_no_body_can_carry_are_refused() -> None:
    with pytest.raises(ValueError, match="number has to be from 0"):
        counted([(0, 1 << 48)], [])
    with pytest.raises(ValueError, match="sender has to be from 0"):
        counted([(1 << 15, 1)], [])
    with pytest.raises(ValueError, match="1 senders and 2 numbers"):
        account([0], [1, 2], [], [], [])


MESSAGES = st.tuples(st.integers(0, 3), st.integers(0, 8))


@given(st.lists(MESSAGES, max_size=30), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 9))))
def test_agrees_with_counting_message_by_message(sent: Sent, came: Came) -> None:
    assert counted(sent, came) == plainly(sent, came)
    assert counted(sent, came, all_receive=[0, 1]) == plainly(sent, came, [0, 1])


def test_one_loss_in_many_is_found() -> None:
    numbers = numpy.arange(300_000)
    came = numpy.delete(numbers, 123_456)
    nobody = numpy.zeros(len(came), dtype=numpy.int64)
    found = account(numpy.zeros(300_000), numbers, nobody, nobody, came)
    assert (found.lost, found.duplicated, found.reordered) == (1, 0, 0)
