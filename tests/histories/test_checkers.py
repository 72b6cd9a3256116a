# SPDX-License-Identifier: Apache-2.0
"""Two checkers that were written apart agree, on sound histories and on spoilt ones."""

from __future__ import annotations

from random import Random

import pytest

from histories.second_checker import problems
from recovery.checker import Operation, Outcome, Stamp, Standing, check

QUEUES = ("A", "B")


def made_history(random: Random) -> tuple[list[Operation], list[Standing]]:
    """What a correct queue manager could have done with a few operations, some of them with unknown ends."""
    operations: list[Operation] = []
    standing: list[Standing] = []
    for number in range(random.randint(1, 14)):
        operation = Operation(f"actor-{random.randint(1, 3)}", outcome=random.choice(("ok", "ok", "fail", "unknown")))
        happens = operation.outcome == "ok" or (operation.outcome == "unknown" and random.random() < 0.5)
        kind = random.choice(("put", "put", "get", "move", "take"))
        if kind == "put":
            count = random.randint(1, 3)
            stamps = [Stamp(operation.actor, number * 10 + k, f"u{number}", k, count) for k in range(1, count + 1)]
            operation.puts = [Standing(random.choice(QUEUES), stamp) for stamp in stamps]
        elif kind in ("get", "move") and standing:
            count = 1 if kind == "move" else random.randint(1, min(3, len(standing)))
            operation.gets = random.sample(standing, count)
            if kind == "move":
                (source,) = operation.gets
                operation.puts = [Standing("C", source.stamp)] if source.queue != "C" else []
        elif kind == "take" and standing and operation.outcome != "fail":
            took = random.choice(standing)
            if operation.outcome == "unknown":
                operation.takes_from = took.queue
                if happens:
                    standing.remove(took)
                operations.append(operation)
                continue
            operation.gets = [took]
        if happens:
            standing = [one for one in standing if one not in operation.gets] + operation.puts
        operations.append(operation)
    return operations, standing


def spoilt(operations: list[Operation], drained: list[Standing], random: Random) -> list[Standing]:
    """The same end with one message too few or too many."""
    if drained and random.random() < 0.6:
        victim = random.choice(drained)
        return [one for one in drained if one != victim]
    candidates = [*drained, *(one for operation in operations for one in (*operation.puts, *operation.gets))]
    return [*drained, random.choice(candidates)] if candidates else [Standing("A", Stamp("x", 1, "u", 1, 1))]


def first_opinion(operations: list[Operation], drained: list[Standing]) -> set[str]:
    """These histories take messages in any order, so it does not count here."""
    return {*check(operations, drained).problems()} - {"reordered"}


def test_both_checkers_accept_what_a_correct_queue_manager_does() -> None:
    for seed in range(3000):
        operations, drained = made_history(Random(seed))
        assert first_opinion(operations, drained) == set(), seed
        assert problems(operations, drained) == set(), seed


def test_both_checkers_agree_about_spoilt_histories() -> None:
    refused = 0
    for seed in range(3000):
        random = Random(seed)
        operations, drained = made_history(random)
        wrong = spoilt(operations, drained, random)
        first, second = bool(first_opinion(operations, wrong)), bool(problems(operations, wrong))
        assert first == second, seed
        refused += first
    assert refused > 1500, "most of them are wrong indeed"


FIRST, SECOND, THIRD = (Standing("A", Stamp("p", number, f"u{number}", 1, 1)) for number in (1, 2, 3))


def put(*standings: Standing, outcome: Outcome = "ok") -> Operation:
    return Operation("p", puts=list(standings), outcome=outcome)


def got(*standings: Standing, outcome: Outcome = "ok") -> Operation:
    return Operation("c", gets=list(standings), outcome=outcome)


@pytest.mark.parametrize(
    ("history", "drained", "expected"),
    [
        ([put(FIRST), put(SECOND)], [SECOND], "lost"),
        ([put(FIRST)], [FIRST, SECOND], "unexpected"),
        ([put(FIRST), got(FIRST)], [FIRST], "duplicated"),
        ([put(FIRST, outcome="fail")], [FIRST], "aborted_read"),
        ([put(FIRST, SECOND, outcome="unknown")], [SECOND], "lost"),
        ([put(FIRST), put(SECOND), put(THIRD)], [SECOND, FIRST, THIRD], "reordered"),
        ([put(FIRST), put(SECOND), got(FIRST, outcome="fail"), got(SECOND), got(FIRST)], [], "reordered"),
    ],
)
def test_both_checkers_find_each_kind_of_problem(
    history: list[Operation], drained: list[Standing], expected: str
) -> None:
    assert expected in check(history, drained, ordered=("A",)).problems()
    assert expected in problems(history, drained, ordered=("A",))


def test_no_order_is_asked_of_puts_that_nobody_knows_the_outcome_of() -> None:
    history = [put(FIRST, outcome="unknown"), put(SECOND)]
    assert check(history, [SECOND, FIRST], ordered=("A",)).problems() == {}
    assert problems(history, [SECOND, FIRST], ordered=("A",)) == set()
