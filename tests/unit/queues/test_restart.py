# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.message import Message
from entrepot.recovery_log.record import Commit, Forget, Heuristic, Put

from .simulated import Simulated


def test_a_unit_that_a_torn_group_left_does_not_come_back_with_a_later_starts_unit() -> None:
    """Each start numbers its units from 1, so the commit of a later start must not serve an earlier one's puts."""
    world = Simulated()
    unit = world.manager.begin()
    for body in (b"never committed", b"nor this"):
        world.manager.put("Q", Message(body), persistent=True, unit=unit)
    world.manager.commit(unit)
    group = world.manager.group_commit.begin()
    assert group is not None
    world.manager.log.write_group(group, force=False)
    records = [logged for logged in world.reader().records(0) if logged.position > group.start]
    assert [type(logged.record) for logged in records] == [Put, Put, Commit]
    torn_at = records[-1].position
    world.overwrite(torn_at, bytes(group.end - torn_at))

    assert world.kill_and_start().torn
    assert world.bodies() == []
    again = world.manager.begin()
    assert again.number == unit.number
    for body in (b"committed", b"with it"):
        world.manager.put("Q", Message(body), persistent=True, unit=again)
    world.manager.commit(again)
    world.manager.force()
    assert world.bodies() == [b"committed", b"with it"]
    world.kill_and_start()
    assert world.bodies() == [b"committed", b"with it"]


def test_a_unit_whose_records_lie_in_two_groups_of_a_start_is_whole() -> None:
    world = Simulated()
    key = world.manager.key_next
    queue = world.manager.objects.queues["Q"]
    (number,) = (each for each, found in world.manager.objects.queues_by_number.items() if found is queue)
    log = world.manager.log
    for record in (Put(9, [(number, key)], Message(b"in two groups", persistent=True)), Commit(9)):
        log.append([record])
        world.manager.force()
    world.kill_and_start()
    assert world.bodies() == [b"in two groups"]


def test_what_the_checkpoint_has_seen_is_not_forgotten_again() -> None:
    """A FORGET before the checkpoint was about something else than what stands in the checkpoint now."""
    world = Simulated()
    log = world.manager.log
    heuristic = Heuristic(b"tx", "", "", "committed")
    log.append([Forget(b"tx", [])])
    world.manager.force()
    log.append([heuristic])
    world.manager.force()
    world.kill_and_start()
    assert world.manager.global_units.heuristics == {(b"tx", ""): heuristic}
    # The checkpoint of that start has the outcome, and the next one reads both records once more.
    world.kill_and_start()
    assert world.manager.global_units.heuristics == {(b"tx", ""): heuristic}
    log = world.manager.log
    log.append([Forget(b"tx", [])])
    world.manager.force()
    world.kill_and_start()
    assert world.manager.global_units.heuristics == {}
