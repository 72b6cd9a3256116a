# SPDX-License-Identifier: Apache-2.0
"""Which profiles open the queue manager's own queues."""

from __future__ import annotations

from entrepot.engine.definitions import MODEL_QUEUE, AuthorityRecord
from entrepot.engine.system_queues import STATE_QUEUES
from entrepot.server.security.authority import Authority
from folding import for_each

NONE: frozenset[str] = frozenset()
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


def allows(profile: str, name: str, word: str, object_type: str = "QUEUE") -> bool:
    """Whether a user whose only record has this profile, and every word, has an authority."""
    record = AuthorityRecord(
        name="record",
        profile=profile,
        object_type=object_type,  # type: ignore[arg-type]
        principal="fred",
        authorities=("PUT", "GET", "BROWSE", "DSP", "CTRL", "PUB"),
    )
    return Authority([record]).allows("fred", NONE, object_type, name, word)


@for_each("profile", [DEAD, "SYSTEM.DEAD.**", "SYSTEM.DEAD.LETTER.*", "SYSTEM.DEAD.LETTER.QUEU?"])
def test_a_profile_that_names_a_system_queue_opens_it(profile: str) -> None:
    assert all(allows(profile, DEAD, word) for word in ("PUT", "GET", "BROWSE", "DSP"))


@for_each(
    "profile",
    ["**", "SYSTEM.**", "SYSTEM.*.LETTER.QUEUE", "SYSTEM.D*.LETTER.QUEUE", "SYSTEM.DEA?.**", "S*.DEAD.**",
     "SYSTE?.DEAD.LETTER.QUEUE", "**.DEAD.LETTER.QUEUE", "*.DEAD.**", "*.*.*.*"],
)  # fmt: skip
def test_a_profile_for_many_queues_does_not_open_those_of_the_system(profile: str) -> None:
    assert not any(allows(profile, DEAD, word) for word in ("PUT", "GET", "BROWSE"))
    assert allows(profile, DEAD, "DSP"), "it may be displayed"


def test_a_profile_that_opens_nothing_does_not_hide_one_that_does() -> None:
    records = [
        AuthorityRecord(name="wide", profile="SYSTEM.D*.LETTER.QUEUE", principal="fred", authorities=()),
        AuthorityRecord(name="named", profile="SYSTEM.DEAD.**", principal="fred", authorities=("PUT",)),
    ]
    assert Authority(records).allows("fred", NONE, "QUEUE", DEAD, "PUT")


def test_a_model_and_names_that_only_look_like_the_systems_are_open() -> None:
    assert allows("**", MODEL_QUEUE, "GET")
    assert allows("**", "SYSTEMS.QUEUE", "PUT")
    assert allows("**", "MY.SYSTEM.QUEUE", "PUT")


def test_channels_and_topics_of_the_system_are_not_queues() -> None:
    assert allows("**", "SYSTEM.DEF.SVRCONN", "CTRL", "CHANNEL")
    assert allows("**", "SYSTEM.BASE.TOPIC", "PUB", "TOPIC")


def test_nobody_but_administrators_gets_the_state_of_the_queue_manager() -> None:
    for name in STATE_QUEUES:
        assert not allows(name, name, "GET")
        assert allows(name, name, "BROWSE")
        assert allows(name, name, "DSP")
        assert allows(name, name, "GET", "TOPIC"), "a topic of that name is no queue"
        assert Authority().allows("root", frozenset({"mqm"}), "QUEUE", name, "GET")
    assert allows(DEAD, DEAD, "GET")


def test_claims_have_names_without_qualifiers() -> None:
    assert allows("flow*", "flow.orders.3", "CTRL", "CLAIM")
    assert not allows("flow*", "flow.orders.3", "GET")
