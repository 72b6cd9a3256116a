# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/global_unit.py by tools/blocking: change that one.
"""Global units of work: messages and the rows of databases, all of them or none.

    with connection.global_unit_of_work(engine) as unit:
        order = unit.get("ORDERS", wait_s=1)
        unit.database(engine).execute(text("INSERT ..."))
        unit.put("DONE", order.body, persistent=True)

This drives the databases; the queue manager decides. Each database prepares
its branch, then one force of the queue manager's log commits the messages
and the decision together, then each database commits. Whatever happens in
between, nobody guesses: without a decision everything is backed out, with
one everything commits, now or by recovery. docs/GLOBAL_UNITS.md tells more.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, Unpack

from sqlalchemy.engine import Connection as DatabaseConnection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from entrepot import checks
from entrepot.client.blocking.coordinator import ClientCoordinator
from entrepot.client.blocking.primitives import apart, for_threads, sleep
from entrepot.client.blocking.unit_of_work import UnitOfWork
from entrepot.client.options import GetOptions, PutOptions
from entrepot.client.read_ahead import RemoteUnit
from entrepot.engine.databases import points
from entrepot.engine.databases.branch import OneTimeBranch, OpenBranch
from entrepot.engine.databases.points import (
    BEFORE_FORGET,
    BEFORE_PREPARE,
    BETWEEN_COMMITS,
    BETWEEN_PREPARES,
    DECIDED,
    LAST_COMMITTED,
    LEFT_TO_LAST,
    PREPARED,
)
from entrepot.engine.databases.recovery import Recoveries
from entrepot.engine.databases.resource import Resource, problem_of, resource_of
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    EntrepotError,
    GlobalUnitInDoubt,
    InvalidArgument,
    LimitExceeded,
    LogFull,
    OnePhaseTwice,
    PrepareFailed,
    UnitBackedOut,
    UnitFinished,
    UnitNotInDoubt,
)
from entrepot.limits import BRANCHES_MAX
from entrepot.message import Message

_LOGGER = logging.getLogger("entrepot")

_ASK_S = 30.0
"""How long a broken connection may keep us from asking what was decided."""
_ASK_AGAIN_S = 0.05
_COMMIT_TRIES = 3
_COMMIT_AGAIN_S = 0.3


@dataclass(frozen=True, slots=True)
class UnfinishedBranch:
    """A database that has not committed yet, though it will: the unit was decided."""

    resource: str
    branch_id: str
    problem: str


class Databases:
    """The databases that a connection uses in global units, and what it does about their leftovers."""

    def __init__(self, coordinator: ClientCoordinator) -> None:
        served = for_threads(coordinator)
        self.recoveries = Recoveries(lambda: served)
        self._resources: dict[Engine, Resource] = {}

    def of(self, engines: Sequence[Engine]) -> list[Resource]:
        """The resources behind some engines, ready for use.

        Raises:
            OnePhaseTwice, TwoPhaseUnavailable, DatabaseUnavailable: Nothing was done.
        """
        if len(engines) > BRANCHES_MAX:
            raise LimitExceeded("databases of a global unit of work", len(engines), BRANCHES_MAX)
        found = []
        for engine in dict.fromkeys(engines):
            if engine not in self._resources:
                self._resources[engine] = apart(resource_of, engine)
            found.append(self._resources[engine])
        one_phase = tuple(resource.name for resource in found if not resource.two_phase)
        if len(one_phase) > 1:
            raise OnePhaseTwice(one_phase)
        for resource in found:
            apart(self.recoveries.before_use, resource)
        return found


class GlobalUnitOfWork:
    """Messages and rows that happen together or not at all.

    As a context manager it commits at the end and backs out on an exception.
    One thread at a time may use it. A database takes part from the moment it
    is asked for with `database` or `databases`; commit and rollback of what
    these return are this unit's affair.
    """

    def __init__(
        self,
        local: UnitOfWork,
        transaction_id: str,
        coordinator: ClientCoordinator,
        resources: Sequence[Resource],
        recoveries: Recoveries,
        ended: Callable[[RemoteUnit], None],
    ) -> None:
        self.local = local
        """Its part at the queue manager, for readers."""
        self._unit = local.remote
        self.transaction_id = transaction_id
        """What databases and the queue manager know it by."""
        self._coordinator = coordinator
        self._resources = {resource.engine: resource for resource in resources}
        self._recoveries = recoveries
        self._tell_connection = ended
        self._counted = True
        """Whether it counts when its commit is refused."""
        self._ended: UnitState | None = None
        """How it has ended, where that is more than its part at the queue manager knows."""
        self._branches: dict[Engine, OpenBranch] = {}
        self.unfinished: list[UnfinishedBranch] = []
        """After a commit: databases that could not be reached since the decision. Recovery goes on with them."""

    # --- what it does -----------------------------------------------------------------------

    @property
    def state(self) -> str:
        """active, prepared, committed, backed out, or unknown when a connection broke at its end"""
        return self._state.value

    @property
    def _state(self) -> UnitState:
        return self._ended or self._unit.state

    def put(
        self, queue: str | Sequence[str], body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]
    ) -> bytes:
        """Put a message, as `entrepot.UnitOfWork.put` does."""
        return self.local.put(queue, body, **options)

    def put_many(
        self, queue: str, bodies: Iterable[bytes | bytearray | memoryview], **options: Unpack[PutOptions]
    ) -> list[bytes]:
        """Put a message for each body, as `entrepot.UnitOfWork.put_many` does."""
        return self.local.put_many(queue, bodies, **options)

    def publish(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        retain: bool = False,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Publish a message, as `entrepot.UnitOfWork.publish` does."""
        return self.local.publish(topic, body, retain=retain, **options)

    def get(self, queue: str, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """Get a message, as `entrepot.UnitOfWork.get` does."""
        return self.local.get(queue, wait_s=wait_s, **options)

    def get_many(
        self, queue: str, limit: int = 100, *, wait_s: float = 0.0, **options: Unpack[GetOptions]
    ) -> list[Message]:
        """Get up to `limit` messages, as `entrepot.UnitOfWork.get_many` does."""
        return self.local.get_many(queue, limit, wait_s=wait_s, **options)

    def get_group(self, queue: str, *, wait_s: float = 0.0, selector: str | None = None) -> list[Message] | None:
        """Get all messages of a whole group, as `entrepot.UnitOfWork.get_group` does."""
        return self.local.get_group(queue, wait_s=wait_s, selector=selector)

    def database(self, engine: Engine) -> DatabaseConnection:
        """The connection on which a database does its part of this unit.

        Raises:
            InvalidArgument: The unit was not begun with this engine.
            DatabaseUnavailable: The unit is still active.
        """
        branch = self._branches.get(engine)
        if branch is None:
            self._require_active()
            resource = self._resources.get(engine)
            if resource is None:
                raise InvalidArgument("engine", "this unit was not begun with it", "one of global_unit_of_work")
            number = list(self._resources).index(engine)
            branch = self._branches[engine] = apart(resource.open, f"{self.transaction_id}-{number}")
        return branch.connection

    def databases(self) -> list[DatabaseConnection]:
        """The connections of all databases, in the order of their engines."""
        return [self.database(engine) for engine in self._resources]

    def _require_active(self) -> None:
        if self._state is not UnitState.ACTIVE:
            raise UnitFinished(self._unit.number, self.state)

    # --- its end ----------------------------------------------------------------------------

    def commit(self, *, counted: bool = True) -> None:
        """Let everything happen, at the queue manager and at every database.

        When this returns the decision is on disk, and the databases have
        committed, but for those that `unfinished` names. With `counted=False`
        messages that return because somebody refused return as they were got.

        Raises:
            PrepareFailed, DatabaseWorkEnded: A database refused; everything was backed out.
            UnitBackedOut: The queue manager could not; everything was backed out.
            Fenced: Somebody else acts under the connection's claim; everything was backed out.
            GlobalUnitInDoubt: What was decided is not known here. Every part will follow it.
        """
        self._require_active()
        self._counted = checks.flag("counted", counted)
        branches = list(self._branches.values())
        if not branches:
            self.local.commit(counted=counted)
            return
        points.reached(BEFORE_PREPARE)
        two_phase = [branch for branch in branches if not isinstance(branch, OneTimeBranch)]
        last = next((branch for branch in branches if isinstance(branch, OneTimeBranch)), None)
        self._prepare(branches, [*two_phase, *([last] if last is not None else [])])
        points.reached(PREPARED)
        forms = [branch.form for branch in branches]
        if last is not None:
            self._let_decide(last, two_phase, forms)
        else:
            self._decide(two_phase, forms)
        points.reached(DECIDED)
        self._finish(two_phase)

    def _prepare(self, branches: Sequence[OpenBranch], in_order: Sequence[OpenBranch]) -> None:
        at = branches[0]
        try:
            for branch in branches:
                branch.require_open()
            for at in in_order:
                if at is not in_order[0]:
                    points.reached(BETWEEN_PREPARES)
                apart(at.prepare)
        except SQLAlchemyError as error:
            # It may be prepared all the same, if only the answer was lost.
            apart(at.leave)
            self._recoveries.later([at.resource], self.transaction_id)
            self._back_out_everywhere()
            raise PrepareFailed(at.resource.name, problem_of(error)) from error
        except BaseException:
            self._back_out_everywhere()
            raise

    def _decide(self, two_phase: Sequence[OpenBranch], forms: Sequence[Branch]) -> None:
        """Let the queue manager commit its part and write down that all must."""
        try:
            self._coordinator.decide(self._unit, forms, counted=self._counted)
        except ConnectionLost as error:
            outcome = self._ask_outcome()
            if outcome is None:
                raise self._leave_in_doubt(two_phase, error.what) from error
            if outcome != "committed":
                self._end(UnitState.BACKED_OUT)
                self._roll_back()
                raise UnitBackedOut(self._unit.number, error.problem) from error
        except EntrepotError as error:
            if error.outcome == "unknown":
                raise self._leave_in_doubt(two_phase, error.what) from error
            self._back_out_everywhere()
            if isinstance(error, ConnectFailed | LogFull):
                # A local unit would still be active then, but databases must not wait for a second try.
                raise UnitBackedOut(self._unit.number, error.what) from error
            raise
        except BaseException as error:
            # Interrupted: whether it was decided is for recovery to find out.
            self._leave_in_doubt(two_phase, type(error).__name__)
            raise
        self._end(UnitState.COMMITTED)

    def _end(self, state: UnitState) -> None:
        self._ended = state
        self._tell_connection(self._unit)

    def _ask_outcome(self) -> str | None:
        """What became of this unit; None when nobody can tell now."""
        deadline = time.monotonic() + _ASK_S
        while True:
            try:
                (outcome,) = self._coordinator.outcomes([self.transaction_id])
                # The queue manager may not have noticed yet that the connection has broken.
                if outcome != "active":
                    return outcome
            except ConnectionLost:
                pass
            except EntrepotError:
                return None  # ConnectFailed, for one: it was tried for as long as the connection may
            if time.monotonic() >= deadline:
                return None
            sleep(_ASK_AGAIN_S)

    def _leave_in_doubt(self, branches: Sequence[OpenBranch], problem: str) -> GlobalUnitInDoubt:
        self._end(UnitState.UNKNOWN)
        for branch in branches:
            apart(branch.leave)
        self._branches.clear()
        self._recoveries.later([branch.resource for branch in branches], self.transaction_id)
        return GlobalUnitInDoubt(self.transaction_id, problem)

    # --- the last agent ---------------------------------------------------------------------

    def _let_decide(self, last: OneTimeBranch, two_phase: Sequence[OpenBranch], forms: Sequence[Branch]) -> None:
        """Prepare our own part too, and do what the one database does that cannot prepare."""
        try:
            self._coordinator.prepare(self._unit, forms, counted=self._counted)
        except EntrepotError as error:
            # The last agent has not committed, so nobody may; should our part be prepared, it is told so.
            if error.outcome == "unknown":
                self._recoveries.tell_later(self.transaction_id, commit=False)
                self._end(UnitState.BACKED_OUT)
            self._back_out_everywhere()
            raise UnitBackedOut(self._unit.number, error.what) from error
        # Where the database remembers what it did, recovery can go on without us.
        left = [*two_phase, last] if last.can_be_asked else two_phase
        try:
            points.reached(LEFT_TO_LAST)
            apart(last.commit)
        except SQLAlchemyError as error:
            if last.is_unknown(error):
                apart(last.leave)
                raise self._leave_in_doubt(left, f"{last.resource.name}: {problem_of(error)}") from error
            apart(last.leave)  # SQLite, for one, would go on with what it did not commit
            self._end(UnitState.BACKED_OUT)
            self._roll_back()
            self._tell(commit=False)
            raise PrepareFailed(last.resource.name, problem_of(error)) from error
        except BaseException:
            apart(last.leave)
            self._leave_in_doubt(left, "interrupted")
            raise
        try:
            points.reached(LAST_COMMITTED)
            told = self._tell(commit=True, last=last)
        except BaseException as error:
            self._leave_in_doubt(two_phase, f"{last.resource.name} has committed: {error}")
            raise
        if not told:
            problem = f"{last.resource.name} has committed, and the queue manager cannot be told"
            raise self._leave_in_doubt(two_phase, problem)
        self._end(UnitState.COMMITTED)

    def _tell(self, *, commit: bool, last: OneTimeBranch | None = None) -> bool:
        """Tell the queue manager what the last agent has done; False when that has to wait."""
        for _ in range(_COMMIT_TRIES):
            try:
                self._coordinator.resolve(self.transaction_id, commit=commit)
                if last is not None:
                    apart(last.resource.told, self.transaction_id)
                return True
            except UnitNotInDoubt:
                return True  # somebody's recovery has asked the last agent, and was faster
            except ConnectionLost:
                outcome = self._ask_outcome()
                if outcome is None:
                    break
                if outcome != "in doubt":
                    return True
            except ConnectFailed:
                break
        self._recoveries.tell_later(self.transaction_id, commit=commit)
        return False

    # --- after the decision -----------------------------------------------------------------

    def _finish(self, branches: Sequence[OpenBranch]) -> None:
        """Let every database commit; what cannot be reached is left to recovery."""
        done = []
        try:
            for branch in branches:
                if branch is not branches[0]:
                    points.reached(BETWEEN_COMMITS)
                problem = self._commit_branch(branch)
                if problem is None:
                    done.append(branch.branch_id)
                else:
                    self.unfinished.append(UnfinishedBranch(branch.resource.name, branch.branch_id, problem))
        except BaseException:
            self._roll_back()  # which only leaves them, since they are decided
            raise
        self._branches.clear()
        points.reached(BEFORE_FORGET)
        with contextlib.suppress(EntrepotError):  # recovery asks the databases once more, then
            if done:
                self._coordinator.finish(self.transaction_id, done)
        if self.unfinished:
            _LOGGER.warning("%s is committed; not yet at %s", self.transaction_id, self.unfinished)
            left = {each.branch_id for each in self.unfinished}
            resources = [branch.resource for branch in branches if branch.branch_id in left]
            self._recoveries.later(resources, self.transaction_id)

    def _commit_branch(self, branch: OpenBranch) -> str | None:
        """Commit at one database; what kept it from that, or None."""
        problem = ""
        try:
            apart(branch.commit)
            return None
        except SQLAlchemyError as error:
            problem = problem_of(error)
        apart(branch.leave)
        for _ in range(_COMMIT_TRIES):
            try:
                end = apart(branch.resource.commit, branch.form)
            except (SQLAlchemyError, EntrepotError) as error:
                problem = problem_of(error)
                sleep(_COMMIT_AGAIN_S)
                continue
            # Recovery finds out and writes down what it means if it is none.
            return None if end == "committed" else f"it is {end} there"
        return problem

    # --- backing out ------------------------------------------------------------------------

    def back_out(self, *, counted: bool = True) -> None:
        """Let nothing happen, anywhere; messages return as `entrepot.UnitOfWork.back_out` gives them back."""
        self._require_active()
        try:
            self.local.back_out(counted=counted)
        finally:
            self._roll_back()

    def _back_out_everywhere(self) -> None:
        """The same after something went wrong, of which the caller is told already."""
        if self._state is UnitState.ACTIVE:
            with contextlib.suppress(EntrepotError):
                self.local.back_out(counted=self._counted)
        self._roll_back()

    def _roll_back(self) -> None:
        """Let no database keep anything; one that cannot be told now hears it from recovery."""
        # What was decided, or may have been, must not be undone from here.
        leave = self._state not in (UnitState.ACTIVE, UnitState.BACKED_OUT)
        for branch in self._branches.values():
            try:
                if leave:
                    apart(branch.leave)
                    self._recoveries.later([branch.resource], self.transaction_id)
                else:
                    apart(branch.roll_back)
            except SQLAlchemyError as error:
                _LOGGER.info("%s: recovery backs out %s: %s", branch.resource.name, branch.branch_id, problem_of(error))
                self._recoveries.later([branch.resource], self.transaction_id)
        self._branches.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is not UnitState.ACTIVE:
            self._roll_back()  # ended by hand, or by a broken connection: then no database may keep anything
            return
        if kind is None:
            try:
                self.commit()
            except BaseException:
                self._back_out_everywhere()
                raise
        else:
            self.back_out()
