# SPDX-License-Identifier: Apache-2.0
"""Global units of work: messages and databases together."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class GlobalUnitError(EntrepotError):
    code = "G00"


class TwoPhaseUnavailable(GlobalUnitError):
    resource: str
    problem: str
    advised: str
    code = "G01"
    text = "{resource} cannot take part in a global unit of work: {problem}"
    hint = "{advised}"


class OnePhaseTwice(GlobalUnitError):
    resources: tuple[str, ...]
    code = "G02"
    text = "{resources} all commit in one phase, and a global unit of work can have one such database"
    hint = "Use PostgreSQL or another database with two-phase commit for all but one of them."


class DatabaseUnavailable(GlobalUnitError):
    resource: str
    problem: str
    code = "G03"
    retryable = True
    text = "{resource} cannot be reached: {problem}"
    hint = "Nothing was done. Start the database, or mend its URL."


class PrepareFailed(GlobalUnitError):
    resource: str
    problem: str
    code = "G04"
    retryable = True
    text = "{resource} did not prepare its part, so the global unit of work was backed out everywhere: {problem}"
    hint = "Do the whole unit again."


class GlobalUnitInDoubt(GlobalUnitError):
    transaction_id: str
    problem: str
    code = "G05"
    outcome = "unknown"
    text = "the outcome of global unit of work {transaction_id} is not known here: {problem}"
    hint = "It is decided, or will be, the same way everywhere; entrepot qm indoubt list shows what is open."


class HeuristicOutcome(GlobalUnitError):
    transaction_id: str
    outcome_there: str
    wanted: str
    code = "G06"
    outcome = "done"
    text = "unit of work {transaction_id} was {outcome_there} by an operator, and its coordinator wanted it {wanted}"
    hint = "Mend by hand what differs, then forget it with entrepot qm indoubt forget."


class DatabaseWorkEnded(GlobalUnitError):
    resource: str
    code = "G07"
    text = "the program has ended its work at {resource} itself; everything else of the unit was backed out"
    hint = "Leave commit and rollback of the database's connection to the global unit of work."


class NotCoordinated(GlobalUnitError):
    transaction_id: str
    problem: str
    code = "G08"
    text = "transaction id {transaction_id}: {problem}"
    hint = "Only the user that has begun a global unit of work, or an administrator, may decide or forget it."
