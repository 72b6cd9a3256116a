# SPDX-License-Identifier: Apache-2.0
"""The next unit of work while a commit is on its way: when there is one, and what becomes of it should that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from entrepot.client.blocking import UnitOfWork, connect
from entrepot.errors import ConnectionLost, Fenced
from entrepot.esql.user_functions import FlowControl
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.deployment import Deployment
from entrepot.flows.live.instance import Instance, _Overtaken
from entrepot.flows.live.live_world import LiveWorld

from .staged import Stage, drawn, node, reads, writes

BATCH = 5


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What becomes of units of work that had something in them, by number."""
    told: list[tuple[str, int]] = []
    numbers: dict[int, int] = {}

    def listen(name: str) -> None:
        original = getattr(UnitOfWork, name)

        def verb(self: UnitOfWork, *arguments: Any, **options: Any) -> Any:
            # Only an instance commits without counting tries; the test's own units are of no interest.
            if (self.remote.used or name == "finish_commit") and (name != "commit" or not options.get("counted", True)):
                number = numbers.setdefault(self.remote.number, len(numbers) + 1)
                told.append((name, number))
            return original(self, *arguments, **options)

        monkeypatch.setattr(UnitOfWork, name, verb)

    for name in ("commit", "begin_commit", "finish_commit", "back_out"):
        listen(name)
    return told


class Site:
    """A queue with messages, a flow that moves them on, and its instance, which a test takes through its rounds."""

    def __init__(self, stage: Stage, *, flow: FlowDefinition | None = None, source: str = "", **options: Any) -> None:
        self.stage = stage
        self.source = source or stage.queue("BOTHRESH(9)")
        self.target = stage.queue()
        flow = flow or drawn("In -> Out", In=reads(self.source, domain="BLOB"), Out=writes(self.target))
        told: dict[str, Any] = {"run": 1, "batch_max": BATCH, "batch_s": 60.0, **options}
        self.instance = Instance(Deployment(flow, stage.url, **told), 0)
        self.instance.open()
        self.rounds(1, 0.0)  # from now on messages come ahead

    def fill(self, count: int) -> list[str]:
        """Let messages be there, and as many as may come ahead be here."""
        bodies = [f"{number}" for number in range(count)]
        self.stage.put(self.source, *bodies)
        self.hear()
        return bodies

    def hear(self) -> None:
        self.instance._connection.calls.hear_all()

    def rounds(self, count: int, wait_s: float = 5.0) -> None:
        for _ in range(count):
            self.instance._round(self.instance._inputs, wait_s)
            self.hear()

    def until_drained(self) -> None:
        while not self.stage.drained(self.source):
            self.rounds(1, 0.01)

    def left(self) -> list[tuple[str, int]]:
        return [(each.body.decode(), each.backout_count) for each in self.stage.messages(self.source)]


@pytest.fixture
def site(stage: Stage) -> Iterator[Site]:
    site = Site(stage)
    yield site
    site.instance.close()


def _refusing(monkeypatch: pytest.MonkeyPatch, error: Exception, *, really: bool = True) -> None:
    """Let the first commit that is on its way fail: the unit is backed out instead, or nobody knows."""
    original = UnitOfWork.begin_commit
    finish = UnitOfWork.finish_commit
    failed: list[UnitOfWork] = []

    def begin_commit(self: UnitOfWork) -> None:
        if failed:
            original(self)
            return
        failed.append(self)
        if really:
            self.back_out(counted=False)
        else:
            original(self)
            finish(self)

    def finish_commit(self: UnitOfWork) -> None:
        if failed and failed[0] is self:
            raise error
        finish(self)

    monkeypatch.setattr(UnitOfWork, "begin_commit", begin_commit)
    monkeypatch.setattr(UnitOfWork, "finish_commit", finish_commit)


def test_the_next_unit_is_worked_on_while_a_commit_is_on_its_way_and_is_committed_after_it(
    site: Site, told: list[tuple[str, int]]
) -> None:
    expected = site.fill(20)
    site.rounds(2)
    assert told == [("begin_commit", 1), ("finish_commit", 1), ("begin_commit", 2)]
    site.until_drained()
    assert site.stage.bodies(site.target) == expected
    names = [name for name, _ in told]
    assert names.count("begin_commit") == names.count("finish_commit")
    assert site.instance.kernel.statistics.units == 4
    assert site.instance.kernel.statistics.messages == 20


def test_where_nothing_more_is_here_a_commit_is_waited_for(site: Site, told: list[tuple[str, int]]) -> None:
    site.fill(BATCH)
    site.rounds(1)
    assert told == [("commit", 1)]


def test_when_a_commit_fails_what_came_behind_goes_back_with_it_untried_and_all_come_one_by_one(
    site: Site, told: list[tuple[str, int]]
) -> None:
    expected = site.fill(20)
    site.stage.connection.mqsc(f"ALTER QLOCAL({site.target}) MAXDEPTH(3)")
    site.rounds(2)
    assert ("begin_commit", 2) not in told
    assert ("commit", 2) not in told
    assert site.left() == [(body, 0) for body in expected]
    statistics = site.instance.kernel.statistics
    assert (statistics.messages, statistics.outputs, statistics.units, statistics.given_back) == (0, 0, 0, 2)
    assert site.instance._inputs[0].alone == BATCH
    site.stage.connection.mqsc(f"ALTER QLOCAL({site.target}) MAXDEPTH(999)")
    site.instance._inputs[0].went_well()
    site.until_drained()
    assert site.stage.bodies(site.target) == expected
    assert statistics.messages == 20


@pytest.mark.parametrize("happened", [False, True])
def test_a_commit_whose_outcome_is_unknown_takes_the_unit_behind_it_along_and_nothing_comes_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    expected = site.fill(20)
    _refusing(monkeypatch, ConnectionLost("there", "it broke"), really=not happened)
    site.rounds(2)
    assert site.left() == [(body, 0) for body in expected[BATCH if happened else 0 :]]
    assert site.instance._inputs[0].is_resting(), "it is no message's fault"
    site.until_drained()
    assert site.stage.bodies(site.target) == expected


def test_a_unit_that_fails_by_itself_leaves_the_commit_before_it_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = site.fill(20)
    site.rounds(1)
    process = site.instance.kernel.process
    _let_fail_once(monkeypatch, site, ValueError("a mistake"))
    site.rounds(1)
    site.instance._finish_sent()
    assert site.stage.bodies(site.target) == expected[:BATCH]
    assert site.left() == [(body, 0) for body in expected[BATCH:]]
    monkeypatch.setattr(site.instance.kernel, "process", process)
    site.until_drained()
    assert site.stage.bodies(site.target) == expected
    assert site.instance.kernel.statistics.messages == 20


def _let_fail_once(monkeypatch: pytest.MonkeyPatch, site: Site, error: BaseException) -> None:
    def process(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(site.instance.kernel, "process", process)


def test_after_trouble_each_commit_is_waited_for_until_one_went_well(site: Site, told: list[tuple[str, int]]) -> None:
    site.fill(20)
    site.instance._inputs[0].rest(1e-6)
    site.rounds(1)
    assert told == [("commit", 1)]
    site.rounds(1)
    assert told == [("commit", 1), ("begin_commit", 2)]


def _one_try(stage: Stage) -> Site:
    return Site(stage, source=stage.queue("BOTHRESH(1)"))


def _at_once(stage: Stage) -> Site:
    source, target = stage.queue(), stage.queue()
    flow = drawn("In -> Out", In=reads(source, domain="BLOB"), Out=writes(target, transaction="no"))
    return Site(stage, flow=flow, source=source)


def _rows(stage: Stage) -> Site:
    return Site(stage, databases={"": "sqlite://"})


@pytest.mark.parametrize("make", [_one_try, _at_once, _rows])
def test_where_a_unit_must_not_be_worked_on_twice_in_vain_its_predecessor_is_waited_for(
    stage: Stage, told: list[tuple[str, int]], make: Callable[[Stage], Site]
) -> None:
    site = make(stage)
    site.fill(20)
    site.rounds(3)
    assert {name for name, _ in told} <= {"commit", "back_out"}
    site.instance.close()


def test_who_asks_for_what_the_unit_before_has_put_waits_for_its_commit(stage: Stage) -> None:
    """Each message puts a note, and takes the note of the message before it."""
    source, notes, target = stage.queue(), stage.queue(), stage.queue()
    flow = drawn(
        "In -> Get",
        "Get -> Put",
        "Get.noMessage -> First",
        "Get.noMessage -> Put",
        In=reads(source, domain="BLOB"),
        Get=node("MQGet", queue=notes, wait_ms=0),
        Put=writes(notes),
        First=writes(target),
    )
    site = Site(stage, flow=flow, source=source, batch_max=1)
    site.fill(20)
    site.until_drained()
    assert len(stage.bodies(target)) == 1, "only the first one finds nothing"
    assert len(stage.bodies(notes)) == 1
    site.instance.close()


def test_who_waits_for_a_commit_that_has_failed_is_no_error_of_its_flow(stage: Stage) -> None:
    source, notes, target, bad = stage.queue(), stage.queue(), stage.queue("MAXDEPTH(1)"), stage.queue()
    flow = drawn(
        "In -> Get",
        "Get -> Out",
        "Get.noMessage -> Out",
        "Get.failure -> Bad",
        "In.catch -> Bad",
        "In.failure -> Bad",
        In=reads(source, domain="BLOB"),
        Get=node("MQGet", queue=notes, wait_ms=0),
        Out=writes(target),
        Bad=writes(bad),
    )
    site = Site(stage, flow=flow, source=source)
    expected = site.fill(20)
    site.rounds(2)
    assert stage.bodies(bad) == []
    assert site.left() == [(body, 0) for body in expected]
    site.instance.close()


def test_who_is_fenced_gives_both_back(site: Site) -> None:
    expected = site.fill(20)
    site.rounds(1)
    site.instance._finish_sent()
    claim = site.instance._claim
    with connect(site.stage.url) as newer:
        newer.claim(claim, 1_000_500)
        with pytest.raises(Fenced):
            site.rounds(3)
        assert site.stage.bodies(site.target) == expected[:BATCH]
        assert [body for body, _ in site.left()] == expected[BATCH:]


def test_an_order_to_stop_is_obeyed_when_the_last_commit_has_happened(stage: Stage) -> None:
    source, target = stage.queue(), stage.queue()
    flow = drawn("In -> Out", In=reads(source, domain="BLOB"), Out=writes(target))
    stage.put(source, *map(str, range(50)))
    with stage.running(flow, batch_max=BATCH) as running:
        running.until(lambda: stage.drained(source), "all are through")
    (result,) = running.results
    assert result["messages"] == 50
    assert result["units"] >= 10
    assert stage.bodies(target) == [str(number) for number in range(50)]


def test_an_instance_that_is_closed_waits_for_its_last_commit(site: Site) -> None:
    expected = site.fill(20)
    site.rounds(1)
    site.instance.close()
    assert site.stage.bodies(site.target) == expected[:BATCH]
    assert site.left() == [(body, 0) for body in expected[BATCH:]]


def test_what_ends_a_message_early_leaves_the_commit_before_it_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = site.fill(20)
    site.rounds(1)
    _let_fail_once(monkeypatch, site, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        site.rounds(1)
    site.instance.close()
    assert site.stage.bodies(site.target) == expected[:BATCH]
    assert [body for body, _ in site.left()] == expected[BATCH:]


def test_what_is_told_of_an_instance_has_happened(site: Site) -> None:
    site.fill(20)
    site.rounds(1)
    assert site.instance._sent is not None
    site.instance._beat_at = 0.0
    site.instance._must_stop()
    assert site.instance._sent is None
    assert site.instance.status()["units"] == 1


def test_no_function_can_keep_the_failure_of_the_unit_before_to_itself() -> None:
    assert issubclass(_Overtaken, FlowControl)
    assert not issubclass(_Overtaken, Exception)


def test_several_inputs_share_what_is_on_its_way(stage: Stage, told: list[tuple[str, int]]) -> None:
    first, second, target = stage.queue(), stage.queue(), stage.queue("MAXDEPTH(7)")
    flow = drawn(
        "A -> Out",
        "B -> Out",
        A=reads(first, domain="BLOB"),
        B=reads(second, domain="BLOB"),
        Out=writes(target),
    )
    site = Site(stage, flow=flow, source=first)
    expected = site.fill(20)
    stage.put(second, *expected)
    site.hear()
    site.rounds(1, 0.05)
    assert told[:2] == [("begin_commit", 1), ("finish_commit", 1)], "five are through, and five more do not fit"
    site.instance._finish_sent()
    assert stage.bodies(target) == expected[:BATCH]
    stage.connection.mqsc(f"ALTER QLOCAL({target}) MAXDEPTH(999)")
    while not stage.drained(first, second):
        site.rounds(1, 0.01)
    assert sorted(stage.bodies(target)) == sorted(2 * expected)
    site.instance.close()


def test_a_full_queue_behind_a_commit_on_its_way_refuses_only_the_later_unit(site: Site) -> None:
    expected = site.fill(20)
    site.stage.connection.mqsc(f"ALTER QLOCAL({site.target}) MAXDEPTH({BATCH})")
    site.rounds(3)
    assert site.stage.bodies(site.target) == expected[:BATCH]
    assert site.left() == [(body, 0) for body in expected[BATCH:]]
    assert "holds its maximum" in site.instance.status()["problem"]


def test_a_kept_state_is_asked_for_when_the_unit_before_has_put_it(stage: Stage) -> None:
    waited: list[str] = []
    world = LiveWorld(stage.connection, None, lambda *_: None, know_before=lambda: waited.append("waited"))
    store = stage.queue()
    with stage.connection.unit_of_work() as unit:
        world.begin(unit)
        assert world.take(store, b"key") is None
        assert waited == ["waited"]
        assert not world.is_kept(store, b"key")
        assert waited == ["waited"] * 2
        assert world.get(store) is None
        assert waited == ["waited"] * 3
