# SPDX-License-Identifier: Apache-2.0
"""Changes to objects in the engine itself: what they need, what they refuse, and what they leave behind."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.engine.administration import ObjectAdministration
from entrepot.engine.definitions import (
    BASE_TOPIC,
    DEAD_LETTER_QUEUE,
    SYNCHRONIZATION_QUEUE,
    AliasQueue,
    LocalQueue,
    ModelQueue,
    Process,
    Topic,
    system_objects,
)
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.quotas import PERMANENT_QUEUES, TEMPORARY_QUEUES
from entrepot.errors import (
    EntrepotError,
    InvalidArgument,
    LogFull,
    ObjectExists,
    ObjectNotFound,
    QueueExists,
    QueueManagerFailed,
    UserLimitReached,
)
from entrepot.message import Message

from .simulated import Simulated


@pytest.fixture
def simulated() -> Simulated:
    return Simulated()


@pytest.fixture
def manager(simulated: Simulated) -> QueueManager:
    return simulated.manager


@pytest.fixture
def administration(manager: QueueManager) -> ObjectAdministration:
    return manager.administration


def define(manager: QueueManager, *definitions: Any) -> None:
    for definition in definitions:
        manager.administration.define(definition, replace_existing=False)
    manager.force()


def put(manager: QueueManager, count: int = 1, **attributes: Any) -> None:
    for _ in range(count):
        manager.put("Q", Message(b"", **attributes), persistent=True)
    manager.force()


def only_reserved(size: int, *, reserved: bool) -> None:
    if not reserved:
        raise LogFull(0)


def refuse(size: int, *, reserved: bool) -> None:
    raise LogFull(0)


def test_an_administrator_may_use_the_last_of_the_log(
    manager: QueueManager, administration: ObjectAdministration, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(manager)
    monkeypatch.setattr(manager.log, "require_room", only_reserved)
    with pytest.raises(LogFull):
        put(manager)
    define(manager, LocalQueue(name="NEW"), Process(name="P"))
    administration.alter(LocalQueue(name="NEW", depth_max=7))
    administration.delete(LocalQueue.kind, "NEW", purge=False)
    assert administration.clear_some("Q")[0] == 1
    manager.force()
    assert "NEW" not in manager.objects.queues


def test_what_the_log_has_no_room_for_does_not_happen(
    manager: QueueManager, administration: ObjectAdministration, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(manager, LocalQueue(name="EMPTY"))
    monkeypatch.setattr(manager.log, "require_room", refuse)
    for verb in (
        lambda: administration.define(LocalQueue(name="NEW"), replace_existing=False),
        lambda: administration.alter(LocalQueue(name="EMPTY", depth_max=7)),
        lambda: administration.delete(LocalQueue.kind, "EMPTY", purge=False),
    ):
        with pytest.raises(LogFull):
            verb()
    manager.force()
    assert "NEW" not in manager.objects.queues
    assert manager.objects.queues["EMPTY"].definition == LocalQueue(name="EMPTY")
    monkeypatch.undo()
    manager.put("EMPTY", Message(b""))


def test_a_queue_manager_that_has_failed_changes_nothing(
    manager: QueueManager, administration: ObjectAdministration
) -> None:
    manager.fail(QueueManagerFailed("disk"))
    with pytest.raises(EntrepotError):
        administration.define(LocalQueue(name="NEW"), replace_existing=False)
    with pytest.raises(EntrepotError):
        administration.alter(LocalQueue(name="Q", depth_max=7))


def test_messages_of_a_queue_stay_its_own_whatever_is_defined_after_it(simulated: Simulated) -> None:
    manager = simulated.manager
    put(manager)
    manager.administration.define(LocalQueue(name="Q", depth_max=7), replace_existing=True)
    define(manager, LocalQueue(name="A"), LocalQueue(name="B"))
    manager.put("B", Message(b"for B"), persistent=True)
    manager.force()
    manager = simulated.power_cut_and_start().manager
    assert [manager.objects.queues[name].depth for name in ("Q", "A", "B")] == [1, 0, 1]


def test_an_existing_object_is_replaced_only_by_its_like(
    manager: QueueManager, administration: ObjectAdministration
) -> None:
    define(manager, Process(name="P"), AliasQueue(name="A", target="Q"))
    with pytest.raises(ObjectExists):
        administration.define(Process(name="P"), replace_existing=False)
    administration.define(Process(name="P", application_id="run"), replace_existing=True)
    for replace_existing in (False, True):
        with pytest.raises(QueueExists):
            administration.define(LocalQueue(name="A"), replace_existing=replace_existing)


def test_the_root_of_all_topics_stays(manager: QueueManager, administration: ObjectAdministration) -> None:
    administration.define_missing()
    define(manager, Process(name=BASE_TOPIC), Topic(name="T", topic="t"))
    with pytest.raises(InvalidArgument):
        administration.delete(Topic.kind, BASE_TOPIC, purge=False)
    administration.delete(Topic.kind, "T", purge=False)
    administration.delete(Process.kind, BASE_TOPIC, purge=False)
    manager.force()
    assert (set(manager.objects.topics), manager.objects.processes) == ({BASE_TOPIC}, {})


def test_system_objects_that_are_missing_come_back_but_not_rules_that_were_taken_away(
    manager: QueueManager, administration: ObjectAdministration
) -> None:
    wanted = {(definition.kind, definition.name) for definition in system_objects()}
    assert len(administration.define_missing()) > 0
    manager.force()
    assert {(definition.kind, definition.name) for definition in manager.objects} >= wanted
    assert administration.define_missing() == []
    channels = [definition for definition in system_objects() if definition.kind not in ("QLOCAL", "QMODEL", "TOPIC")]
    assert channels
    administration.delete(LocalQueue.kind, DEAD_LETTER_QUEUE, purge=False)
    administration.delete(channels[0].kind, channels[0].name, purge=False)
    manager.force()
    assert len(administration.define_missing()) == 1
    administration.delete(LocalQueue.kind, SYNCHRONIZATION_QUEUE, purge=False)
    manager.force()
    assert len(administration.define_missing()) == 2, "it was made before there were channels"


# --- clear and delete -----------------------------------------------------------------------------


def test_a_queue_is_cleared_a_thousand_at_a_time_with_those_that_sleep(
    manager: QueueManager, administration: ObjectAdministration
) -> None:
    for number in range(1500):
        manager.put("Q", Message(b"", delay_s=60 if number < 3 else 0))
    assert [administration.clear_some("Q")[0] for _ in range(3)] == [1000, 500, 0]
    status = administration.queue_status("Q")
    assert (status["CURDEPTH"], status["DELAYED"], status["UNCOM"], status["MEMORY"]) == (0, 0, 0, 0)


def test_a_clear_of_persistent_messages_is_done_when_the_log_has_it(simulated: Simulated) -> None:
    manager = simulated.manager
    put(manager, 3)
    settlement = manager.administration.clear_all(manager.objects.queues["Q"])
    assert settlement is not None
    assert (settlement.done, manager.objects.queues["Q"].depth) == (False, 3)
    manager.force()
    assert (settlement.done, manager.objects.queues["Q"].depth) == (True, 0)
    assert simulated.power_cut_and_start().manager.get("Q")[0] is None
    assert manager.administration.clear_all(manager.objects.queues["Q"]) is None


def test_a_purged_queue_takes_its_messages_with_it(simulated: Simulated) -> None:
    put(simulated.manager, 3)
    simulated.manager.administration.delete(LocalQueue.kind, "Q", purge=True)
    simulated.manager.force()
    manager = simulated.power_cut_and_start().manager
    define(manager, LocalQueue(name="Q"))
    assert manager.get("Q")[0] is None


# --- dynamic queues -------------------------------------------------------------------------------


def test_dynamic_queues_have_names_of_their_own(manager: QueueManager, administration: ObjectAdministration) -> None:
    define(manager, ModelQueue(name="M", depth_max=7))
    names = [administration.make_dynamic("M", "DYN.*")[0] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(manager.objects.queues[name].definition.depth_max == 7 for name in names)
    assert administration.make_dynamic("M", "EXACT")[0] == "EXACT"
    with pytest.raises(QueueExists):
        administration.make_dynamic("M", "EXACT")
    for no_model in ("Q", "MISSING"):
        with pytest.raises(ObjectNotFound):
            administration.make_dynamic(no_model, "DYN.*")


@pytest.mark.parametrize(("kind", "quota"), [("TEMPORARY", TEMPORARY_QUEUES), ("PERMANENT", PERMANENT_QUEUES)])
def test_a_users_queues_are_counted_from_the_start(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, kind: str, quota: Any
) -> None:
    administration = manager.administration
    define(manager, ModelQueue(name="M", dynamic_kind=kind))  # type: ignore[arg-type]
    administration.alter(replace(manager.objects.manager, user_temporary_queues_max=2, user_permanent_queues_max=2))
    manager.force()
    for count in (1, 2):
        administration.make_dynamic("M", "DYN.*", "ann", limited=True)
        assert manager.quotas.held(quota, "ann") == count
    with pytest.raises(UserLimitReached):
        administration.make_dynamic("M", "DYN.*", "ann", limited=True)
    administration.make_dynamic("M", "DYN.*", "ann", limited=False)
    manager.fail(QueueManagerFailed("disk"))
    with pytest.raises(EntrepotError):
        administration.make_dynamic("M", "DYN.*", "ann", limited=False)
    assert manager.quotas.held(quota, "ann") == 3, "one that was not made does not count"


def test_only_a_temporary_queue_goes_with_its_connection(
    manager: QueueManager, administration: ObjectAdministration
) -> None:
    define(manager, ModelQueue(name="T", dynamic_kind="TEMPORARY"), ModelQueue(name="P", dynamic_kind="PERMANENT"))
    temporary, permanent = (administration.make_dynamic(model, "DYN.*")[0] for model in ("T", "P"))
    manager.force()
    for name in (temporary, permanent, "Q", "MISSING"):
        administration.remove_temporary(name)
    assert [name in manager.objects.queues for name in (temporary, permanent, "Q")] == [False, True, True]
