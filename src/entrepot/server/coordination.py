# SPDX-License-Identifier: Apache-2.0
"""The verbs of coordinators at a server: units that are prepared, and global units that we decide ourselves.

They belong to `Conversation`, which finds them here by their names.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from entrepot import checks
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError, FrameUnreadable, InvalidArgument, LimitExceeded, UnitFinished, UnitNotInDoubt
from entrepot.limits import BRANCH_ID_BYTES_MAX, BRANCHES_MAX, TRANSACTIONS_ASKED_MAX, UNITS_PER_CONNECTION_MAX
from entrepot.server.wire import verbs

if TYPE_CHECKING:
    from entrepot.server.conversation import Conversation
    from entrepot.server.session import Session

_NUMBER_MAX = 2**63 - 1


def _prepare(conversation: Conversation, number: int, frame: verbs.Prepare) -> None:
    session = conversation.session
    name = checks.transaction_id(frame.transaction_id)
    branches = _vetted(frame.branches)
    _require_right(session)
    unit = _taken(conversation, frame)
    done = partial(_prepared, conversation, number, frame.unit, unit)
    if not branches:
        session.prepare(unit, name, done)
    elif name != unit.transaction_id:
        session.back_out(unit)
        raise InvalidArgument("transaction_id", "it is not this unit's", "what BEGIN_GLOBAL has answered")
    else:
        prepare = session.engine.manager.global_units.prepare
        limited = not session.identity.administrator
        session.end_with(unit, partial(prepare, unit, branches, session.identity.user, limited=limited), done)


def _prepared(conversation: Conversation, number: int, named: int, unit: Unit, error: EntrepotError | None) -> None:
    conversation.session.tell_refused(error)
    conversation._committed(number, named, unit, error)


def _require_right(session: Session) -> None:
    """Refuse units that wait for a coordinator to users without PREPARE: they hold messages for as long as it takes.

    Raises:
        NotAuthorized
    """
    session.require("QMGR", session.registry.host.settings.name, "PREPARE")


def _resolve(conversation: Conversation, number: int, frame: verbs.Resolve) -> None:
    session = conversation.session
    name = checks.transaction_id(frame.transaction_id)
    manager = session.engine.manager
    manager.group_commit.require_running()
    gone = name not in manager.in_doubt.units and not manager.global_units.heuristics_of(name)
    if gone and session.may("QMGR", session.registry.host.settings.name, "PREPARE"):
        raise UnitNotInDoubt(name.hex())  # resolved already: whose it was is not remembered
    _require_own(session, name)
    session.resolve(name, partial(conversation._answer, number), commit=frame.commit)


def _in_doubt(conversation: Conversation, number: int, _: verbs.Empty) -> None:
    """All of them for users with INQ on the queue manager, their own for others."""
    session = conversation.session
    found = session.registry.host.in_doubt()
    if not session.may("QMGR", session.registry.host.settings.name, "INQ"):
        owner = session.engine.manager.global_units.owner
        found = [name for name in found if owner(name) == session.identity.user]
    conversation._answer(number, None, found)


def _begin_global(conversation: Conversation, number: int, frame: verbs.UnitPayload) -> None:
    if not frame.unit or frame.unit in conversation._units or len(conversation._units) >= UNITS_PER_CONNECTION_MAX:
        raise FrameUnreadable(f"unit {frame.unit} has begun already, or is one too many, or 0")
    _require_right(conversation.session)
    unit = conversation._units[frame.unit] = conversation.session.begin(everywhere=True)
    conversation._answer(number, None, unit.transaction_id)


def _decide(conversation: Conversation, number: int, frame: verbs.Decide) -> None:
    session = conversation.session
    units = session.engine.manager.global_units
    name = checks.transaction_id(frame.transaction_id)
    branches = _vetted(frame.branches)
    if not frame.unit:
        ours = name.startswith(units.prefix)
        if ours and units.outcome(name) == "unknown" and not units.heuristics_of(name):
            # Recovery may have been faster than who began it, and nobody's authority is remembered any more.
            raise UnitNotInDoubt(name.hex())
        _require_own(session, name)
        session.attempt(partial(units.resolve, name, commit=frame.commit), partial(conversation._answer, number))
        return
    unit = _taken(conversation, frame)
    if not frame.commit or unit.transaction_id != name:
        session.back_out(unit)
        raise InvalidArgument("transaction_id", "it is not this unit's", "what BEGIN_GLOBAL has answered")
    decide = partial(units.decide, unit, branches, session.identity.user, limited=not session.identity.administrator)
    session.end_with(unit, decide, partial(_prepared, conversation, number, frame.unit, unit))


def _outcomes(conversation: Conversation, number: int, frame: verbs.Outcomes) -> None:
    session = conversation.session
    if len(frame.transaction_ids) > TRANSACTIONS_ASKED_MAX:
        raise LimitExceeded("transaction ids at a time", len(frame.transaction_ids), TRANSACTIONS_ASKED_MAX)
    names = [checks.transaction_id(name) for name in frame.transaction_ids]
    resource = checks.text("resource", frame.resource)
    units = session.engine.manager.global_units
    with session.registry.host.lock:
        outcomes = [units.outcome(name) for name in names]
        whose = None if session.identity.administrator else session.identity.user
        found = units.unfinished(resource, whose) if resource else iter(())
        unfinished = [
            (each.transaction_id, each.branch.branch_id, each.branch.number)
            for each in islice(found, TRANSACTIONS_ASKED_MAX)
        ]
        undecided = list(islice(units.undecided(resource, whose), TRANSACTIONS_ASKED_MAX))
    conversation._answer(number, None, [units.prefix, outcomes, unfinished, undecided])


def _forget(conversation: Conversation, number: int, frame: verbs.Forget) -> None:
    """With number 0 nobody learns that it was refused, and nothing else is: the branches are asked once more."""
    session = conversation.session
    units = session.engine.manager.global_units
    try:
        name = checks.transaction_id(frame.transaction_id)
        if units.owner(name) is not None:
            _require_own(session, name)
        if len(frame.branches) > BRANCHES_MAX:
            raise LimitExceeded("branches of a global unit of work", len(frame.branches), BRANCHES_MAX)
        if frame.outcome:
            outcome = checks.text("outcome", frame.outcome)
            if len(frame.branches) != 1:
                raise InvalidArgument("branches", f"{len(frame.branches)} of them", "one, with an outcome")
            verb = partial(units.met_otherwise, name, frame.branches[0], outcome)
            session.attempt(verb, partial(conversation._answer, number))
            return
        with session.registry.host.lock:
            units.finish(name, frame.branches)
    except EntrepotError:
        if number:
            raise
        return
    conversation._answer(number, None)


def _require_own(session: Session, transaction_id: bytes) -> None:
    """Let the user who has prepared or begun a unit decide and forget it, and others with SET on the queue manager."""
    owner = session.engine.manager.global_units.owner(transaction_id)
    if owner != session.identity.user:
        session.require("QMGR", session.registry.host.settings.name, "SET")


def _taken(conversation: Conversation, frame: verbs.Prepare | verbs.Decide) -> Unit:
    """The unit that a frame is about to end, with what its consumers have used; if something was refused, it ends now.

    Raises:
        UnitFinished: There is none.
        EntrepotError: A put of it was refused.
    """
    number, counted = frame.unit, frame.counted
    problem = conversation._errors.pop(number, None)
    unit = conversation._unit(number)
    if unit is None:
        raise UnitFinished(number, "none")
    if problem is None or not counted:
        too_many = conversation.consumers.enlist(frame.used, partial(conversation._begun, number))
        problem = problem or too_many
    conversation._units.pop(number, None)
    if problem is not None:
        conversation.session.back_out(unit, counted=counted)
        raise problem
    unit.forgiving = not counted
    return unit


def _vetted(forms: list[tuple[str, str, int]]) -> list[Branch]:
    if len(forms) > BRANCHES_MAX:
        raise LimitExceeded("branches of a global unit of work", len(forms), BRANCHES_MAX)
    branches = []
    for resource, branch_id, own in forms:
        if len(branch_id) > BRANCH_ID_BYTES_MAX or not branch_id.isascii():
            raise InvalidArgument("branch_id", checks.shortened(branch_id), f"{BRANCH_ID_BYTES_MAX} ASCII characters")
        number = checks.whole_number("number", own, 0, _NUMBER_MAX)
        branches.append(Branch(checks.text("resource", resource), branch_id, number))
    return branches
