# SPDX-License-Identifier: Apache-2.0
"""What is said to PostgreSQL, and what its answers mean; tests/global_units has a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Self

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from entrepot.engine.databases.postgresql import PostgreSQL
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import TwoPhaseUnavailable

BRANCH = Branch("postgresql://db/shop", "entrepot-00-1-7-0", 700)


class Server:
    """A connection to a server that gives one answer, or an error."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.commands: list[str] = []
        self.autocommit = False
        self.connection = SimpleNamespace(dbapi_connection=self)
        self.isolation_level = ""

    def _reply(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def scalar(self, *_: object) -> Any:
        return self._reply()

    def scalars(self, *_: object) -> Any:
        return SimpleNamespace(all=self._reply)

    def execution_options(self, *, isolation_level: str) -> Self:
        self.isolation_level = isolation_level
        return self

    def exec_driver_sql(self, command: str) -> None:
        assert self.isolation_level == "AUTOCOMMIT", "PostgreSQL refuses it within a transaction"
        self.commands.append(command)
        self._reply()


class Reached(PostgreSQL):
    def __init__(self, server: Server) -> None:
        super().__init__(create_engine("postgresql+psycopg://db/shop"))
        self._server = server

    @contextmanager
    def connected(self) -> Iterator[Any]:
        yield self._server


def reached(answer: Any) -> tuple[Reached, Server]:
    server = Server(answer)
    return Reached(server), server


def error(**codes: str) -> DBAPIError:
    """As psycopg has it with `sqlstate`, as psycopg2 with `pgcode`."""
    original = Exception("no")
    vars(original).update(codes)
    return (ProgrammingError if codes else OperationalError)("COMMIT PREPARED", {}, original)


@pytest.mark.parametrize("prepared_max", ["1", "64"])
def test_a_server_that_prepares_takes_part(prepared_max: str) -> None:
    resource, server = reached(prepared_max)
    resource.check()
    server.autocommit = True
    with pytest.raises(TwoPhaseUnavailable, match="commits by itself"):
        resource.check()


@pytest.mark.parametrize("prepared_max", ["0", None])
def test_a_server_that_prepares_nothing_or_does_not_say_is_refused(prepared_max: str | None) -> None:
    with pytest.raises(TwoPhaseUnavailable, match="max_prepared_transactions is 0"):
        reached(prepared_max)[0].check()


@pytest.mark.parametrize(("answer", "number"), [("4294967297", 4294967297), (None, 0)])
def test_a_transaction_has_the_number_that_the_server_gives(answer: str | None, number: int) -> None:
    resource, server = reached(answer)
    assert resource.number(server) == number  # type: ignore[arg-type]


def test_ids_that_cannot_be_ours_are_left_alone() -> None:
    resource, _ = reached(["entrepot-00-1-7-0", "entrepot-00-'; DROP TABLE orders", "entrepot-00-X"])
    assert resource.prepared("entrepot-00-") == ["entrepot-00-1-7-0"]


def test_branches_are_ended_by_command() -> None:
    resource, server = reached(None)
    assert resource.commit(BRANCH) == "committed"
    resource.roll_back(BRANCH.branch_id)
    assert server.commands == ["COMMIT PREPARED 'entrepot-00-1-7-0'", "ROLLBACK PREPARED 'entrepot-00-1-7-0'"]


def test_a_branch_that_the_command_has_committed_is_not_asked_for() -> None:
    assert reached("in progress")[0].commit(BRANCH) == "committed"


@pytest.mark.parametrize("code", ["sqlstate", "pgcode"])
def test_a_branch_that_is_not_there_is_asked_for(code: str) -> None:
    resource, server = reached(error(**{code: "42704"}))
    resource.roll_back(BRANCH.branch_id)
    server.scalar = lambda *_: "aborted"  # type: ignore[method-assign]
    assert resource.commit(BRANCH) == "backed out"


@pytest.mark.parametrize("failure", [error(), error(sqlstate="55000"), error(pgcode="42501")], ids=repr)
def test_any_other_error_leaves_the_outcome_open(failure: DBAPIError) -> None:
    resource, _ = reached(failure)
    with pytest.raises(type(failure)):
        resource.commit(BRANCH)
    with pytest.raises(type(failure)):
        resource.roll_back(BRANCH.branch_id)


@pytest.mark.parametrize(
    ("status", "end"),
    [("committed", "committed"), ("aborted", "backed out"), ("in progress", "unknown"), (None, "committed")],
)
def test_how_a_branch_has_ended_is_what_the_server_remembers(status: str | None, end: str) -> None:
    assert reached(status)[0].ended(BRANCH) == end


def test_a_server_that_has_not_come_so_far_is_another_one() -> None:
    assert reached(error(sqlstate="22023"))[0].ended(BRANCH) == "unknown"


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    with pytest.raises(OperationalError):
        reached(error())[0].ended(BRANCH)


def test_a_branch_without_a_number_has_ended_as_was_decided() -> None:
    assert reached("aborted")[0].ended(Branch(BRANCH.resource, BRANCH.branch_id)) == "committed"
