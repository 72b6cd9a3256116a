# SPDX-License-Identifier: Apache-2.0
"""What belongs to a user, and how much one user may hold, below all protocols: sessions of several users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.engine import quotas
from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.errors import EntrepotError, NotAuthorized, SubscriptionNotFound, UnitFinished, UserLimitReached
from entrepot.message import Message
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

from .guests import House, Work

Inside = Callable[[Work], None]
RIGHTS = """
    DEFINE QMODEL(M) DEFTYPE(PERMDYN)
    SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('ann','bob') AUTHADD(ALLMQI)
    SET AUTHREC PROFILE('**') OBJTYPE(TOPIC) PRINCIPAL('ann','bob') AUTHADD(ALLMQI)
    SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann','bob') AUTHADD(ALLMQI)
"""


class User:
    """A session whose verbs return or raise, once what they wrote is on disk."""

    def __init__(self, house: House, name: str) -> None:
        identity = Identity(name, administrator=name == "root", address="10.0.0.1")
        self.session = Session(house.registry, identity, "tests", "NATIVE")
        self._house = house
        self._prepared = 0

    async def outcome(self, verb: Callable[..., Any]) -> Any:
        told: list[tuple[Any, ...]] = []
        verb(lambda *values: told.append(values))
        await self._house.until(lambda: told)
        if isinstance(told[0][-1], EntrepotError):
            raise told[0][-1]
        return told[0][0]

    async def subscribe(self, name: str, topic: str = "prices", **options: Any) -> SubscriptionDefinition:
        wanted = SubscriptionDefinition(name=name, topic=topic, managed=True, type="API", **options)
        found: SubscriptionDefinition = await self.outcome(lambda done: self.session.subscriptions.open(wanted, done))
        return found

    async def end(self, name: str) -> None:
        await self.outcome(lambda done: self.session.subscriptions.end(name, done))

    async def leave(self, name: str) -> None:
        await self.outcome(lambda done: self.session.subscriptions.leave(name, done))

    async def prepare(self) -> Unit:
        """Prepare a unit under a name of its own: the user's, and how many there were."""
        unit = self.session.begin()
        self.session.put_in_unit("Q", Message(b"x"), True, None, unit)
        name = f"{self.session.identity.user} {self._prepared}".encode()
        self._prepared += 1
        await self.outcome(lambda done: self.session.prepare(unit, name, done))
        return unit

    async def dynamic(self, model: str) -> str:
        name: str = await self.outcome(lambda done: self.session.make_dynamic(model, "MINE.*", done))
        return name


def leaving(work: Work) -> Work:
    """The same, and all its users go in the end."""

    async def done(house: House) -> None:
        try:
            await work(house)
        finally:
            for session in list(house.registry.sessions.values()):
                session.close()

    return done


def test_a_durable_subscription_is_its_owners_and_administrators(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS)
        refused: list[str] = []
        house.registry.refused = lambda identity, error: refused.append(f"{identity.user}: {error.what}")
        ann, bob, root = User(house, "ann"), User(house, "bob"), User(house, "root")
        mine = await ann.subscribe("s")
        assert mine.user == "ann"
        await ann.leave("s")
        for verb in (lambda: bob.subscribe("s"), lambda: bob.subscribe("s", topic=""), lambda: bob.end("s")):
            with pytest.raises(NotAuthorized, match="owner"):
                await verb()
        assert len(refused) == 3
        with pytest.raises(NotAuthorized):
            bob.session.require("QUEUE", mine.destination, "GET")
        await root.subscribe("s", topic="")
        await root.leave("s")
        await ann.subscribe("s", topic="")
        ann.session.require("QUEUE", mine.destination, "GET")
        await ann.leave("s")
        await root.end("s")
        with pytest.raises(SubscriptionNotFound):
            await ann.end("s")
        rows = house.host.definitions()
        assert not [row for row in rows if isinstance(row, SubscriptionDefinition)]

    inside(leaving(work))


def test_others_read_a_subscription_with_varuser_any_and_do_not_end_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS)
        ann, bob = User(house, "ann"), User(house, "bob")
        await ann.subscribe("s", shared=True)
        with pytest.raises(NotAuthorized):
            await bob.subscribe("s", shared=True)
        house.mqsc("ALTER SUB('s') VARUSER(ANY)")
        shared = await bob.subscribe("s", shared=True)
        assert (shared.user, shared.any_user) == ("ann", True)
        await bob.leave("s")
        await ann.leave("s")
        with pytest.raises(NotAuthorized):
            await bob.end("s")

    inside(leaving(work))


def test_a_subscription_without_an_owner_is_an_administrators(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS + "\nDEFINE SUB('old') TOPICSTR('prices') DESTCLAS(MANAGED)")
        ann = User(house, "ann")
        for verb in (lambda: ann.subscribe("old", topic=""), lambda: ann.end("old")):
            with pytest.raises(NotAuthorized):
                await verb()
        await User(house, "root").end("old")

    inside(leaving(work))


def test_one_user_holds_so_much_and_no_more_and_what_goes_makes_room(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS + "\nALTER QMGR USRDSUB(2) USRPERMQ(2) USRTEMPQ(1) USRPREP(2) MAXPREP(3)")
        ann, bob, root = User(house, "ann"), User(house, "bob"), User(house, "root")
        await ann.subscribe("s1")
        await ann.subscribe("s2")
        with pytest.raises(UserLimitReached, match="USRDSUB"):
            await ann.subscribe("s3")
        await ann.subscribe("s4", durable=False)
        await bob.subscribe("s5")
        await ann.leave("s1")
        await ann.end("s1")
        await ann.subscribe("s3")
        for model, limit, keyword in (("M", 2, "USRPERMQ"), ("SYSTEM.DEFAULT.MODEL.QUEUE", 1, "USRTEMPQ")):
            names = [await ann.dynamic(model) for _ in range(limit)]
            with pytest.raises(UserLimitReached, match=keyword):
                await ann.dynamic(model)
            await bob.dynamic(model)
            for _ in range(3):
                await root.dynamic(model)
            if model == "M":
                house.host.delete("QLOCAL", names[0], purge=True)
                await ann.dynamic(model)
        for user, count, keyword in ((ann, 2, "USRPREP"), (bob, 1, "MAXPREP")):
            for _ in range(count):
                assert (await user.prepare()).state is UnitState.PREPARED
            with pytest.raises(UserLimitReached, match=keyword):
                await user.prepare()
            (unit,) = user.session.units
            assert unit.state is UnitState.ACTIVE
        await ann.outcome(lambda done: ann.session.resolve(b"ann 0", done, commit=True))
        assert house.host.manager.quotas.held(quotas.PREPARED_UNITS, "ann") == 1
        for session in (ann.session, bob.session, root.session):
            session.close()
        assert house.host.manager.quotas.held(quotas.TEMPORARY_QUEUES, "ann") == 0
        for name in list(house.host.in_doubt()):
            house.host.resolve(name, commit=False)

    inside(leaving(work))


def test_open_units_of_one_user_take_so_much_memory_together(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS + "\nALTER QMGR USRUOWB(1000000)")
        ann, bob, root = User(house, "ann"), User(house, "bob"), User(house, "root")

        def puts(user: User, message: Message, most: int) -> int:
            """How many fit into six units."""
            units = [user.session.begin() for _ in range(6)]
            for count in range(most):
                try:
                    user.session.put_in_unit("Q", message, True, None, units[count % 6])
                except UserLimitReached as error:
                    assert "USRUOWB" in str(error)
                    break
            for unit in units:
                user.session.back_out(unit)
            return count

        for _ in range(2):  # what was backed out makes room again
            assert 5 <= puts(ann, Message(b"x" * 100_000), 100) <= 10
        assert 5 <= puts(bob, Message(b"", properties={"p": "x" * 100_000}), 100) <= 10, "properties count, too"
        assert 500 <= puts(bob, Message(b""), 2000) <= 1000, "and every message"
        assert puts(root, Message(b"x" * 100_000), 30) == 29
        assert house.host.manager.quotas.held(quotas.UNCOMMITTED_BYTES, "ann") == 0

    inside(leaving(work))


def test_waiting_gets_and_consumers_of_one_user_are_counted(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS + "\nALTER QMGR USRWAIT(128)")
        users = [User(house, "ann") for _ in range(3)]
        for user in users[:2]:
            for _ in range(32):
                user.session.get("Q", None, None, 60.0, lambda *_: None)
                user.session.consume("R", None, lambda *_: None, lambda _: None)
        with pytest.raises(UserLimitReached, match="USRWAIT"):
            users[2].session.consume("R", None, lambda *_: None, lambda _: None)
        users[0].session.close()
        users[2].session.consume("R", None, lambda *_: None, lambda _: None)
        for user in users:
            user.session.close()
        assert house.host.manager.quotas.held(quotas.WAITING_GETS, "ann") == 0

    inside(leaving(work))


def test_a_connection_with_one_reader_counts_as_one(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS + "\nALTER QMGR USRWAIT(100)")
        users = [User(house, "ann") for _ in range(100)]
        for user in users:
            user.session.consume("R", None, lambda *_: None, lambda _: None)
        assert house.host.manager.quotas.held(quotas.WAITING_GETS, "ann") == 100
        for user in users:
            user.session.close()

    inside(leaving(work))


def test_a_request_beyond_the_limit_of_waiting_gets_is_refused_before_it_is_put(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS + "\nALTER QMGR USRWAIT(1)")
        User(house, "ann").session.get("R", None, None, 60.0, lambda *_: None)
        guest = await house.admitted("ann")
        for persistent in (False, True):
            with pytest.raises(UserLimitReached, match="USRWAIT"):
                await guest.ask(Verb.REQUEST, 7, verbs.Request("Q", "R", 1.0, persistent, None, Message(b"")))
        assert house.host.queue_status("Q")["CURDEPTH"] == 0

    inside(leaving(work))


def test_a_unit_that_is_open_for_too_long_is_backed_out(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(house: House) -> None:
        house.mqsc(RIGHTS)
        ann = User(house, "ann")
        old, young = ann.session.begin(), ann.session.begin()
        ann.session.put_in_unit("Q", Message(b"x"), True, None, old)
        old.began_s -= 100
        ann.session.back_out_old(99)
        assert (old.state, young.state) == (UnitState.BACKED_OUT, UnitState.ACTIVE)
        with pytest.raises(UnitFinished):
            await ann.outcome(lambda done: ann.session.commit(old, done))
        assert house.depth("Q") == 0
        ann.session.close()

    inside(leaving(work))
