# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/connection.py by tools/blocking: change that one.
"""A connection to a queue manager: put, get, browse, units of work, and all else that an application asks of it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import WeakSet

from entrepot import checks
from entrepot.client.blocking.administration import Administration
from entrepot.client.blocking.calls import Calls, Place
from entrepot.client.blocking.consumption import Consumption
from entrepot.client.blocking.coordinator import ClientCoordinator
from entrepot.client.blocking.incoming import Incoming, open_incoming
from entrepot.client.blocking.pipeline import Pipeline
from entrepot.client.blocking.primitives import Lock, apart, at_once
from entrepot.client.blocking.reader import Reader
from entrepot.client.blocking.subscription import Subscription, subscribe
from entrepot.client.blocking.transport import Transport
from entrepot.client.blocking.unit_of_work import UnitOfWork, Verbs
from entrepot.client.options import (
    GetOptions,
    PutOptions,
    Sender,
    SubscribeOptions,
    criteria,
    draft,
    reply_options,
    reply_to,
    subscription,
)
from entrepot.client.read_ahead import RemoteUnit
from entrepot.engine.claims import Claim, require_epoch, require_name, require_prefix, status_form
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import MODEL_QUEUE, require_subscription_name
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectionClosed, EntrepotError, ExtraMissing
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message, MessageType
from entrepot.server.mqsc import Answer, require_ok
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from entrepot.client.blocking.global_unit import Databases, GlobalUnitOfWork

_BROWSE_AT_ONCE = 500


class Browse(Iterator[Message]):
    """A cursor over a queue's messages, in the order readers would get them, leaving them there.

    It shows messages that arrive behind it while it moves on, and looks ahead a
    few hundred at a time, so it may show one that was got meanwhile.
    """

    def __init__(self, calls: Calls, queue: str, criteria: Criteria | None) -> None:
        self._calls = calls
        self._queue = queue
        self._criteria = criteria
        self._place: Place | None = None
        self._ahead: list[Message] = []
        self._ended = False

    def fetch(self) -> None:
        """Look at the next messages."""
        found, self._place = self._calls.browse(self._queue, self._criteria, self._place, _BROWSE_AT_ONCE)
        self._ahead = found[::-1]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        if not self._ahead and not self._ended:
            self.fetch()
        if not self._ahead:
            self._ended = True
            raise StopIteration
        return self._ahead.pop()


class Connection(Verbs):
    """A connection to a queue manager; any number of threads, or of tasks of its event loop, may use it."""

    def __init__(self, line: Transport, sender: Sender) -> None:
        super().__init__(Calls(line), sender, None)
        self.administration = Administration(self.calls)
        self._coordinator = ClientCoordinator(self.calls)
        self._reply_queue = ("", 0)
        self._making_reply_queue = Lock()
        self._units: set[RemoteUnit] = set()
        self._subscriptions: set[Subscription] = set()
        self._consumptions: WeakSet[Consumption] = WeakSet()
        self._databases: Databases | None = None

    @property
    def user(self) -> str:
        """As whom messages are put, unless the queue manager knows better."""
        return self._sender.user

    @property
    def application(self) -> str:
        return self._sender.application

    @property
    def is_near(self) -> bool:
        """Whether the queue manager runs in this process."""
        return self.calls.line.is_near

    # --- messages -------------------------------------------------------------------------------

    def browse(self, queue: str, **options: Unpack[GetOptions]) -> Browse:
        """Look at a queue's messages without taking them; `GetOptions` says at which."""
        self._require_open()
        cursor = Browse(self.calls, queue, criteria(options))
        at_once(cursor.fetch)  # so that a wrong name is told now
        return cursor

    def browse_page(
        self, queue: str, criteria: Criteria | None, place: Place | None, limit: int
    ) -> tuple[list[Message], Place | None]:
        """Up to `limit` messages behind a place, and the place to go on from: for those who remember places."""
        return self.calls.browse(queue, criteria, place, limit)

    def request(
        self,
        queue: str,
        body: bytes | bytearray | memoryview,
        *,
        timeout_s: float = 30.0,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Put a request and wait for the reply that carries its message id as correlation id.

        Raises:
            RequestTimedOut: No reply came in time; whether the request is served is unknown.
        """
        timeout_s = checks.seconds("timeout_s", timeout_s, positive=True)
        while True:
            reply_queue, opened = self._reply_queue
            if opened != self.calls.core.opened:
                reply_queue, opened = self._own_reply_queue()
            persistent = options.get("persistent")
            if body.__class__ is bytes and len(options) == (persistent.__class__ is bool):
                reply = self.calls.line.request_plain(
                    queue, body, reply_queue, timeout_s, persistent, self._sender, opened
                )
                if reply is not None:
                    return reply
                continue
            # A request that is waited for no longer is of no use.
            message, persistent, priority, _ = draft(
                body, options, self._sender, type=MessageType.REQUEST, reply_to=reply_queue, expiry_s=timeout_s
            )
            reply = self.calls.request(
                queue, message, reply_queue, timeout_s, persistent=persistent, priority=priority, opened=opened
            )
            if reply is not None:
                return reply

    def reply(self, request: Message, body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]) -> bytes:
        """Answer a request on the queue it names, under its message id, as persistent as it was.

        Through a channel a nonpersistent reply is not waited for. Should it be
        refused, because its requester has gone for instance, the next pipeline's
        `wait` on this connection raises that.
        """
        if options or request.persistent or self.calls.line.is_near:
            return self.put(reply_to(request), body, **reply_options(request, options))
        return self.calls.line.reply_plain(
            reply_to(request), checks.body(body), request.priority, request.message_id, self._sender
        )

    def reply_queue(self) -> str:
        """The temporary queue on which this connection waits for replies."""
        return (self._own_reply_queue())[0]

    def _own_reply_queue(self) -> tuple[str, int]:
        core = self.calls.core
        if self._reply_queue[1] == core.opened:
            return self._reply_queue
        with self._making_reply_queue:  # many requests at once share one
            while self._reply_queue[1] != core.opened:
                opened = core.opened
                self._reply_queue = (self.dynamic_queue(), opened)
            return self._reply_queue

    def dynamic_queue(self, model: str = MODEL_QUEUE, pattern: str = "ENTREPOT.*") -> str:
        """Create a queue after a model and return its name; a temporary one goes with this connection."""
        name: str = self.calls.ask(Verb.DYNAMIC, verbs.Dynamic(model, pattern))
        return name

    def pipeline(self) -> Pipeline:
        """Put many messages without waiting for each; use it with `with`, which waits for all of them."""
        self._require_open()
        return Pipeline(self.calls, self._sender)

    def consume(
        self, queue: str, *, read_ahead: int = 100, wait_s: float = math.inf, **options: Unpack[GetOptions]
    ) -> Consumption:
        """Messages one after another, until none comes for `wait_s`; use it with `with` and a `for` loop.

        A message is settled when its turn ends well: when the loop asks for the
        next one, or the `with` ends without an exception. By an exception it
        returns to its queue with a raised `backout_count`, and at BOTHRESH moves
        to BOQNAME; a bare `for` that is left in any way returns it, too.
        `message.ack()`, `retry(delay_s=...)` and `reject(reason)` say otherwise.
        Through a channel up to `read_ahead` messages come before they are asked
        for; on leaving they return untried. Should the connection break, what was
        not settled comes again if it is persistent, and is gone if not.
        """
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        wanted = criteria(options)
        wait_s = checks.wait("wait_s", wait_s)

        def open_it() -> Incoming:
            return open_incoming(self.calls, queue, wanted, credit)

        consumption = Consumption(open_it, open_it(), wait_s)
        self._consumptions.add(consumption)
        return consumption

    def reader(self, queue: str, *, read_ahead: int = 100, **options: Unpack[GetOptions]) -> Reader:
        """Read a queue in units of work; use it with `with`.

        It promises what `UnitOfWork.get` promises, but through a channel up to
        `read_ahead` messages come before they are asked for. Those are locked
        meanwhile: others neither get nor see them. They return untried when the
        reader is closed or the connection breaks.
        """
        self._require_open()
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        return Reader(self.calls, queue, criteria(options), credit)

    # --- topics ---------------------------------------------------------------------------------

    def subscribe(self, topic: str | None = None, **options: Unpack[SubscribeOptions]) -> Subscription:
        """Have what is published on a topic from now on, and what was retained; use it with `with`.

        `+` stands for one level of a topic and `#` for any number. With
        `durable="NAME"` the subscription collects while nobody is connected; by
        that name it is opened again, without a topic if you like.

        Raises:
            InvalidTopic, SelectorSyntaxError, ContentFilterSyntaxError, InvalidArgument: Nothing was done.
            SubscriptionInUse, SubscriptionDiffers, SubscriptionNotFound: It is not open.
        """
        wanted, new_only = subscription(topic, options)
        opened = subscribe(self.calls, wanted, self._consumptions, new_only=new_only)
        self._subscriptions.add(opened)
        return opened

    def unsubscribe(self, durable: str) -> None:
        """End a durable subscription, and discard what it has collected.

        Raises:
            SubscriptionNotFound, SubscriptionInUse: Nothing was done.
        """
        name = require_subscription_name(durable)
        self.calls.ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, end=True))

    # --- units of work --------------------------------------------------------------------------

    def unit_of_work(self) -> UnitOfWork:
        """Begin a unit of work; use it with `with`."""
        unit = self.calls.begin()
        self._units.add(unit)
        return UnitOfWork(self.calls, self._sender, unit, self._units.discard)

    def global_unit_of_work(self, *engines: Engine) -> GlobalUnitOfWork:
        """Begin a unit of work that databases take part in; use it with `with`.

        Each engine is SQLAlchemy's. All of them commit in two phases, but for
        one at most, which then decides for all. The first time an engine is
        used here, what a crash has left at its database is brought to its end.

        Raises:
            TwoPhaseUnavailable, OnePhaseTwice, DatabaseUnavailable: Nothing was begun.
        """
        try:
            from entrepot.client.blocking.global_unit import Databases, GlobalUnitOfWork
        except ImportError as error:
            raise ExtraMissing("a global unit of work", "sql") from error

        if self._databases is None:
            self._databases = Databases(self._coordinator)
        resources = self._databases.of(engines)
        unit, transaction_id = self._coordinator.begin()
        self._units.add(unit)
        local = UnitOfWork(self.calls, self._sender, unit, self._units.discard)
        return GlobalUnitOfWork(
            local, transaction_id, self._coordinator, resources, self._databases.recoveries, self._units.discard
        )

    def in_doubt(self) -> list[bytes]:
        """The transaction ids of units that were prepared and not resolved."""
        return list(self.calls.ask(Verb.IN_DOUBT, verbs.Empty()))

    def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        """Carry out a coordinator's decision about a prepared unit of work."""
        request = verbs.Resolve(checks.transaction_id(transaction_id), checks.flag("commit", commit))
        self.calls.ask(Verb.RESOLVE, request)

    # --- claims ---------------------------------------------------------------------------------

    def claim(self, name: str, epoch: int, *, status: Mapping[str, Any] | None = None) -> str:
        """Take the right to act under a name, or renew it; returns the order that was given to it, or "".

        A connection that held it with a lower epoch is fenced: its units of work
        are backed out, and all its verbs are refused, also after it has connected
        again. A new epoch is on disk when this returns, and no lower one ever
        gets the name again. Claim before you open readers and consumers.

        With the same epoch it is renewed, which is cheap; `status`, a mapping
        that JSON can write, is what `claims` then reports of it. After a broken
        connection it is claimed again by itself, before any other verb.

        Raises:
            Fenced: The name is held with a higher epoch, or with this one on another connection.
            NotAuthorized: The user has no SET authority for the name (OBJTYPE(CLAIM)).
            LimitExceeded: The epoch is more than a million above those claimed or given out; use `next_epoch`.
            UserLimitReached: The user has claimed USRCLAIM names, or all users MAXCLAIM.
        """
        core = self.calls.core
        request = core.claim(require_name(name), require_epoch(epoch), status_form(status))
        order: str = self.calls.ask(Verb.CLAIM, request)
        core.claimed[name] = epoch
        return order

    def retire(self, name: str, epoch: int) -> None:
        """Let no epoch below this one act under a name; a connection that does so is fenced. On disk when this returns.

        Raises:
            NotAuthorized: The user has no SET authority for the name.
            LimitExceeded: As `claim` says.
        """
        self.calls.ask(Verb.RETIRE, verbs.Retire(require_name(name), require_epoch(epoch)))

    def instruct(self, prefix: str, order: str) -> int:
        """Give an order, such as "stop", to all who act under names that begin so; returns how many they are.

        Each hears it as the answer to its next `claim`, until a higher epoch
        is claimed, or the queue manager is started anew.

        Raises:
            NotAuthorized: The user has no SET authority for one of the names. None has heard anything.
        """
        count: int = self.calls.ask(Verb.INSTRUCT, verbs.Instruct(require_prefix(prefix), order))
        return count

    def claims(self, prefix: str = "") -> list[Claim]:
        """The claims whose names begin so, as far as the user has authority for them."""
        return [Claim(*form) for form in self.calls.ask(Verb.CLAIMS, verbs.PrefixPayload(require_prefix(prefix)))]

    def next_epoch(self, prefix: str) -> int:
        """A number above all that were ever claimed, retired or given under names that begin so; on disk."""
        epoch: int = self.calls.ask(Verb.NEXT_EPOCH, verbs.PrefixPayload(require_prefix(prefix)))
        return epoch

    # --- administration and the end -------------------------------------------------------------

    def mqsc(self, script: str, *, source: str = "-") -> list[Answer]:
        """Run administration commands and return their answers.

        Raises:
            MqscError: A command was wrong or failed; the others were carried out.
        """
        answers = self.administration.mqsc(script, source)
        require_ok(answers)
        return answers

    def _require_open(self) -> None:
        if self.calls.line.is_closed:
            raise ConnectionClosed()

    def close(self) -> None:
        """Back out what is open, drop temporary queues, and let the queue manager go."""
        if self.calls.line.is_closed:
            return
        if self._databases is not None:
            apart(self._databases.recoveries.close)
        try:
            for consumption in list(self._consumptions):
                consumption.give_back()
            for unit in list(self._units):
                if unit.state is UnitState.ACTIVE:
                    self.calls.back_out(unit)
                elif unit.state is UnitState.ENDING:
                    with contextlib.suppress(EntrepotError):
                        self.calls.finish_commit(unit)
            for opened in list(self._subscriptions):
                opened.close()
        except EntrepotError:
            pass  # a queue manager that has failed, or a connection that is gone, has let go of it
        finally:
            self.calls.line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
