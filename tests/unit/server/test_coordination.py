# SPDX-License-Identifier: Apache-2.0
"""Global units of work by frames, also by those of strangers who mean no good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.errors import (
    EntrepotError,
    FrameUnreadable,
    InvalidArgument,
    LimitExceeded,
    NotAuthorized,
    NotCoordinated,
    QueueNotFound,
    UnitNotInDoubt,
    UserLimitReached,
)
from entrepot.limits import BRANCH_ID_BYTES_MAX, BRANCHES_MAX, TRANSACTIONS_ASKED_MAX
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

from .guests import Guest, House, Work, put

Inside = Callable[[Work], None]
RESOURCE = "postgresql://db/shop"


async def begun(guest: Guest, unit: int) -> bytes:
    transaction_id: bytes = (await guest.ask(Verb.BEGIN_GLOBAL, 9, verbs.UnitPayload(unit))).value
    await guest.put("Q", b"x", unit=unit, persistent=True)
    return transaction_id


def branches(transaction_id: bytes, count: int = 1) -> list[tuple[str, str, int]]:
    return [(RESOURCE, f"{transaction_id.decode()}-{number}", 7) for number in range(count)]


async def outcome(guest: Guest, transaction_id: bytes) -> str:
    asked = await guest.ask(Verb.OUTCOMES, 9, verbs.Outcomes([transaction_id]))
    return str(asked.value[1][0])


async def unfinished(guest: Guest) -> list[Any]:
    return list((await guest.ask(Verb.OUTCOMES, 9, verbs.Outcomes([], RESOURCE))).value[2])


def test_a_global_unit_from_its_beginning_to_its_end(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        name = await begun(guest, 1)
        assert await outcome(guest, name) == "active"
        assert house.depth("Q") == 0
        await guest.ask(Verb.DECIDE, 9, verbs.Decide(1, name, branches(name)))
        assert await outcome(guest, name) == "committed"
        assert house.depth("Q") == 1
        assert [tuple(each) for each in await unfinished(guest)] == [(name, f"{name.decode()}-0", 7)]
        guest.say(Verb.FORGET, 0, verbs.Forget(name, [f"{name.decode()}-0"]))
        assert await outcome(guest, name) == "unknown"
        assert await unfinished(guest) == []

    inside(work)


def test_the_end_of_a_connection_backs_out_its_global_units(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()
        name = await begun(guest, 1)
        guest.wire.lose()
        assert await outcome(other, name) == "unknown"
        assert house.depth("Q") == 0

    inside(work)


def test_a_refused_put_keeps_a_unit_from_being_decided(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        name = await begun(guest, 1)
        guest.say(Verb.PUT, 0, put("NOWHERE", unit=1))
        with pytest.raises(QueueNotFound):
            await guest.ask(Verb.DECIDE, 9, verbs.Decide(1, name, branches(name)))
        assert await outcome(guest, name) == "unknown"
        assert house.depth("Q") == 0

    inside(work)


def test_a_last_agents_unit_is_prepared_and_decided_by_who_began_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(
            "SET AUTHREC PROFILE('*') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(PREPARE)"
        )
        ann, admin = await house.admitted("ann"), await house.admitted()
        for owner in (ann, admin):
            for unit, commit in ((1, True), (2, False)):
                name = await begun(owner, unit)
                await owner.ask(
                    Verb.PREPARE, 9, verbs.Prepare(unit, name, branches=[*branches(name), ("sqlite:///x", "", 0)])
                )
                assert await outcome(ann, name) == "in doubt"
                if owner is admin:
                    with pytest.raises(NotAuthorized):
                        await ann.ask(Verb.DECIDE, 9, verbs.Decide(0, name, [], commit))
                await owner.ask(Verb.DECIDE, 9, verbs.Decide(0, name, [], commit))
                assert await outcome(ann, name) == ("committed" if commit else "unknown")
                with pytest.raises(UnitNotInDoubt):  # once is enough, whoever it was
                    await owner.ask(Verb.DECIDE, 9, verbs.Decide(0, name, [], commit))
        assert house.depth("Q") == 2
        with pytest.raises(NotAuthorized):  # it is nobody's, and prepared units of others are not for everybody
            await ann.ask(Verb.DECIDE, 9, verbs.Decide(0, b"nobody's", []))

    inside(work)


def test_units_that_wait_for_a_last_agent_are_told_to_who_began_them(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(
            "SET AUTHREC PROFILE('*') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(PREPARE)"
        )
        ann, admin = await house.admitted("ann"), await house.admitted()
        resource = "sqlite:///x"
        names = []
        for owner, number in ((ann, 7), (admin, 8), (ann, 0)):
            name = await begun(owner, number + 1)
            await owner.ask(Verb.PREPARE, 9, verbs.Prepare(number + 1, name, branches=[(resource, "", number)]))
            names.append(name)
        asked = [await each.ask(Verb.OUTCOMES, 9, verbs.Outcomes([], resource)) for each in (ann, admin)]
        hers, all_of_them = [[tuple(form) for form in answer.value[3]] for answer in asked]
        assert hers == [(names[0], 7)]
        assert all_of_them == [(names[0], 7), (names[1], 8)], "a database without a number cannot be asked"
        assert (await admin.ask(Verb.OUTCOMES, 9, verbs.Outcomes([], "sqlite:///y"))).value[3] == []
        for name in names:
            await admin.ask(Verb.DECIDE, 9, verbs.Decide(0, name, [], False))

    inside(work)


def test_decisions_are_for_who_made_them_to_see_and_forget(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(
            "SET AUTHREC PROFILE('*') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(PREPARE)"
        )
        ann, admin = await house.admitted("ann"), await house.admitted()
        names = []
        for owner in (ann, admin):
            names.append(await begun(owner, 1))
            await owner.ask(Verb.DECIDE, 9, verbs.Decide(1, names[-1], branches(names[-1], 2)))
        assert [len(await unfinished(each)) for each in (ann, admin)] == [2, 4]
        hers, his = ([branch_id for _, branch_id, _ in branches(name, 2)] for name in names)
        with pytest.raises(NotAuthorized):
            await ann.ask(Verb.FORGET, 9, verbs.Forget(names[1], his))
        ann.say(Verb.FORGET, 0, verbs.Forget(names[1], his))
        assert await outcome(ann, names[1]) == "committed"
        await ann.ask(Verb.FORGET, 9, verbs.Forget(names[0], hers[:1], "backed out"))
        await admin.ask(Verb.FORGET, 9, verbs.Forget(names[0], hers[1:]))
        assert [len(await unfinished(each)) for each in (ann, admin)] == [0, 2]
        await ann.ask(Verb.FORGET, 9, verbs.Forget(names[0], hers))  # nothing is left to forget
        assert [each.outcome for each in house.host.manager.global_units.heuristics.values()] == ["backed out"]

    inside(work)


WRONG: list[tuple[Callable[[bytes], tuple[Verb, Any]], type[EntrepotError]]] = [
    (lambda name: (Verb.DECIDE, verbs.Decide(1, b"another", [])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, b"", [])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, b"x" * 141, [])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, branches(name), False)), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, branches(name, 33))), LimitExceeded),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, [("r" * 1025, f"{name.decode()}-0", 1)])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, [("r", "x" * 200, 1)])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, [("r", "é", 1)])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, [("r", f"{name.decode()}-0", -1)])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, [("r", f"{name.decode()}-0", 2**63)])), InvalidArgument),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, [("r", "entrepot-other-0", 1)])), NotCoordinated),
    (lambda name: (Verb.DECIDE, verbs.Decide(1, name, branches(name) * 2)), NotCoordinated),
    (lambda name: (Verb.DECIDE, verbs.Decide(0, name, [])), UnitNotInDoubt),
    (lambda name: (Verb.PREPARE, verbs.Prepare(1, b"another", branches=branches(name))), InvalidArgument),
    (lambda name: (Verb.OUTCOMES, verbs.Outcomes([b"x"] * 501)), LimitExceeded),
    (lambda name: (Verb.OUTCOMES, verbs.Outcomes([b""])), InvalidArgument),
    (lambda name: (Verb.OUTCOMES, verbs.Outcomes([], "r" * 1025)), InvalidArgument),
    (lambda name: (Verb.FORGET, verbs.Forget(b"", [])), InvalidArgument),
    (lambda name: (Verb.FORGET, verbs.Forget(name, ["x"] * 33)), LimitExceeded),
    (lambda name: (Verb.FORGET, verbs.Forget(name, ["x"], "o" * 1025)), InvalidArgument),
    (lambda name: (Verb.FORGET, verbs.Forget(name, [], "backed out")), InvalidArgument),
    (lambda name: (Verb.FORGET, verbs.Forget(name, ["x"], "backed out")), NotCoordinated),
]


@pytest.mark.parametrize(("make", "error"), WRONG)
def test_wrong_frames_are_refused_and_decide_nothing(
    inside: Inside, make: Callable[[bytes], tuple[Verb, Any]], error: type[EntrepotError]
) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        name = await begun(guest, 1)
        verb, payload = make(name)
        with pytest.raises(error):
            await guest.ask(verb, 9, payload)
        assert await outcome(guest, name) in ("active", "unknown")
        assert house.depth("Q") == 0
        assert house.host.manager.global_units.decisions == {}

    inside(work)


def test_branches_may_be_as_many_and_have_ids_as_long_as_the_limits_say(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        name = await begun(guest, 1)
        width = BRANCH_ID_BYTES_MAX - len(name) - 1
        forms = [(RESOURCE, f"{name.decode()}-{number:0>{width}}", 0) for number in range(BRANCHES_MAX)]
        forms[0] = ("r" * 1024, forms[0][1], 2**63 - 1)
        await guest.ask(Verb.DECIDE, 9, verbs.Decide(1, name, forms))
        assert {len(branch_id) for _, branch_id, _ in forms} == {BRANCH_ID_BYTES_MAX}
        assert len(await unfinished(guest)) == BRANCHES_MAX - 1
        await guest.ask(Verb.FORGET, 9, verbs.Forget(name, [branch_id for _, branch_id, _ in forms]))
        assert await outcome(guest, name) == "unknown"

    inside(work)


def test_as_many_outcomes_may_be_asked_for_as_the_limit_says(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        asked = await guest.ask(Verb.OUTCOMES, 9, verbs.Outcomes([b"x"] * TRANSACTIONS_ASKED_MAX))
        assert asked.value[1] == ["unknown"] * TRANSACTIONS_ASKED_MAX

    inside(work)


@pytest.mark.parametrize("is_global", [True, False])
def test_a_unit_refused_at_a_limit_is_in_the_audit_log_before_its_user_hears_of_it(
    inside: Inside, is_global: bool
) -> None:
    async def work(house: House) -> None:
        house.mqsc(
            "SET AUTHREC PROFILE('*') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(PREPARE)\n"
            "ALTER QMGR USRPREP(1)"
        )
        ann = await house.admitted("ann")
        heard: list[list[int]] = []
        house.registry.refused = lambda *_: heard.append([number for _, number, _ in ann.frames()])
        names = [await begun(ann, unit) for unit in (1, 2)]
        frames = [
            verbs.Prepare(unit, name if is_global else b"own %d" % unit, branches=branches(name) if is_global else [])
            for unit, name in zip((1, 2), names, strict=True)
        ]
        await ann.ask(Verb.PREPARE, 9, frames[0])
        with pytest.raises(UserLimitReached):
            await ann.ask(Verb.PREPARE, 9, frames[1])
        assert heard == [[]]
        await ann.ask(Verb.RESOLVE, 9, verbs.Resolve(frames[0].transaction_id, False))

    inside(work)


@pytest.mark.parametrize("unit", [0, 1])
def test_a_unit_begins_once(inside: Inside, unit: int) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await begun(guest, 1)
        guest.say(Verb.BEGIN_GLOBAL, 9, verbs.UnitPayload(unit))
        assert isinstance(await guest.farewell(), FrameUnreadable)

    inside(work)
