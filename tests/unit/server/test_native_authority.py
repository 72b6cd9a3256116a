# SPDX-License-Identifier: Apache-2.0
"""Who puts a message is what the server says, and what he may do, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.errors import (
    NotAuthorized,
    RequestTimedOut,
    UnitNotInDoubt,
)
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

from .guests import SAMPLES, House, Work, put

Inside = Callable[[Work], None]


def test_the_server_stamps_who_put_a_message(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("SET AUTHREC PROFILE('*') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT, GET)")
        guest = await house.admitted("ann", application="orders")
        forged: dict[str, Any] = {
            "user": "root",
            "application": "payroll",
            "backout_count": 9,
            "put_time": 1.0,
            "target_queue": "X",
            "target_manager": "Y",
        }
        await guest.put("Q", **forged)
        guest.say(Verb.REQUEST, 9, verbs.Request("Q", "R", 60.0, None, None, Message(b"", **forged)))
        await guest.put(["Q", "R"], **forged)
        await guest.put("Q", unit=1, **forged)
        await guest.commit(1)
        found = house.host.browse("Q", None, None, 9)[0]
        assert len(found) == 4
        for message in found:
            assert (message.user, message.application) == ("ann", "orders")
            assert (message.backout_count, message.target_queue, message.target_manager) == (0, "", "")
            assert message.put_time > 1e9

    inside(work)


AUTHORITIES: list[tuple[Verb, Any, str]] = [
    (Verb.PUT, put("Q"), "PUT"),
    (Verb.PUT, put("Q@QM1"), "PUT"),
    (Verb.PUT, put(["Q", "Q"]), "PUT"),
    (Verb.PUT, put("Q", unit=1), "PUT"),
    (Verb.GET, verbs.Get("Q"), "GET"),
    (Verb.GET, verbs.Get("Q", 1), "GET"),
    (Verb.GET, verbs.Get("Q", 0, 0.01), "GET"),
    (Verb.GET_MANY, verbs.GetMany("Q", 1, 5), "GET"),
    (Verb.GET_GROUP, verbs.GetGroup("Q", 1), "GET"),
    (Verb.CONSUME, verbs.Consume("Q", 1, 5), "GET"),
    (Verb.BROWSE, verbs.BrowsePayload("Q", None, 5), "BROWSE"),
]


@pytest.mark.parametrize(("verb", "payload", "word"), AUTHORITIES)
def test_every_verb_on_a_queue_needs_its_authority(inside: Inside, verb: Verb, payload: Any, word: str) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        words = {"PUT", "GET", "BROWSE"}
        for authorities in ((), tuple(words - {word})):
            if authorities:
                house.mqsc(f"SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD({', '.join(authorities)})")
            with pytest.raises(NotAuthorized) as refused:
                await guest.ask(verb, 9, payload)
            assert (refused.value.object, refused.value.authority) == ("Q", word)
        house.mqsc(f"SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD({word})")
        await guest.ask(verb, 9, payload)
        house.mqsc(f"SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHRMV({word})")
        with pytest.raises(NotAuthorized):
            await guest.ask(verb, 10, payload if verb != Verb.CONSUME else verbs.Consume("Q", 2, 5))

    inside(work)


def test_a_refusal_does_not_tell_whether_there_is_such_a_queue(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        said = []
        for queue in ("Q", "NOSUCH"):
            with pytest.raises(NotAuthorized) as refused:
                await guest.ask(Verb.PUT, 9, put(queue))
            said.append(str(refused.value).replace(queue, "-"))
        assert said[0] == said[1]

    inside(work)


def test_a_distribution_list_needs_authority_for_each_queue(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)")
        guest = await house.admitted("ann")
        with pytest.raises(NotAuthorized):
            await guest.put(["Q", "R"])
        assert house.depth("Q") == 0

    inside(work)


def test_a_request_needs_authority_for_both_queues(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        request = verbs.Request("Q", "R", 0.01, None, None, Message(b""))
        for grants in ("", "PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)"):
            if grants:
                house.mqsc(f"SET AUTHREC {grants}")
            with pytest.raises(NotAuthorized):
                await guest.ask(Verb.REQUEST, 9, request)
        assert house.depth("Q") == 0
        house.mqsc("SET AUTHREC PROFILE(R) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET)")
        with pytest.raises(RequestTimedOut):
            await guest.ask(Verb.REQUEST, 9, request)

    inside(work)


def test_units_in_doubt_are_for_who_may_look_at_or_decide_them(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        for verb in (Verb.PREPARE, Verb.BEGIN_GLOBAL, Verb.RESOLVE):
            with pytest.raises(NotAuthorized):
                await guest.ask(verb, 9, SAMPLES[verb])
        admin = await house.admitted()
        house.mqsc(
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(PREPARE)\n"
            "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)"
        )
        for each, name in ((guest, b"hers"), (admin, b"others")):
            await each.put("Q", b"x", unit=7)
            await each.ask(Verb.PREPARE, 9, verbs.Prepare(7, name))
        assert (await guest.ask(Verb.IN_DOUBT, 9, verbs.Empty())).value == [b"hers"]
        with pytest.raises(NotAuthorized):
            await guest.ask(Verb.RESOLVE, 9, verbs.Resolve(b"others", True))
        await guest.ask(Verb.RESOLVE, 9, verbs.Resolve(b"hers", True))
        with pytest.raises(UnitNotInDoubt):
            await guest.ask(Verb.RESOLVE, 9, verbs.Resolve(b"hers", True))
        house.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(INQ, SET)")
        assert (await guest.ask(Verb.IN_DOUBT, 9, verbs.Empty())).value == [b"others"]
        await guest.ask(Verb.RESOLVE, 9, verbs.Resolve(b"others", False))

    inside(work)


def test_a_queue_of_ones_own_making_is_open_to_its_maker_only_while_it_is_that_queue(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        with pytest.raises(NotAuthorized):
            await guest.ask(Verb.DYNAMIC, 9, verbs.Dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "MINE.*"))
        house.mqsc("SET AUTHREC PROFILE(SYSTEM.DEFAULT.MODEL.QUEUE) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET)")
        name = (await guest.ask(Verb.DYNAMIC, 9, verbs.Dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "MINE.*"))).value
        await guest.put(name, b"x")
        assert (await guest.get(name)) is not None
        guest.link.session.drop_temporary(name)
        house.host.define(type(house.host.find("QLOCAL", "Q"))(name=name), replace=False)  # type: ignore[call-arg]
        with pytest.raises(NotAuthorized):
            await guest.put(name, b"x")

    inside(work)


def test_refusals_are_told_to_the_audit_log(inside: Inside) -> None:
    async def work(house: House) -> None:
        told: list[tuple[str, str, str]] = []
        house.registry.refused = lambda identity, error: told.append((identity.user, error.object, error.authority))
        guest = await house.admitted("ann")
        for verb, payload in ((Verb.PUT, put("Q")), (Verb.MANAGE, verbs.Manage("stop"))):
            with pytest.raises(NotAuthorized):
                await guest.ask(verb, 9, payload)
        assert told == [("ann", "Q", "PUT"), ("ann", "QM1", "administrator")]

    inside(work)
