# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an ESQL program, before it runs and while it does."""

from __future__ import annotations

from entrepot.errors.flows import FlowError


class EsqlError(FlowError):
    code = "X00"


class EsqlInvalid(EsqlError):
    mistakes: tuple[tuple[str, int, int, str, str], ...]
    """File, line, column, what is wrong there, and the line with a caret below it."""
    code = "X01"

    @property
    def what(self) -> str:
        count = len(self.mistakes)
        return f"{count} mistake{'s' if count > 1 else ''} in ESQL:\n" + "\n".join(
            f"{file}:{line}:{column}: {problem}\n{excerpt}" for file, line, column, problem, excerpt in self.mistakes
        )

    hint = "Nothing was deployed. `entrepot esql check` tells the same without deploying."


class EsqlRunError(EsqlError):
    """Something that happens while a program runs; a HANDLER can take it by its SQLSTATE."""

    problem: str
    sqlstate: str = ""
    """Of a database; other errors have S, users' own U, and their number."""
    native_error: int = 0
    number: int = 2230
    """The message number that an ExceptionList carries."""
    inserts: tuple[str, ...] = ()
    place: str = ""
    """file:line, in module Main."""
    code = "X02"

    @property
    def what(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem

    @property
    def state(self) -> str:
        """The SQLSTATE that a HANDLER sees."""
        return self.sqlstate or f"S{self.number:05d}"

    hint = "The message goes to the failure or catch terminal, or back to its queue."


class CastFailed(EsqlRunError):
    code = "X03"


class UserException(EsqlRunError):
    """THROW USER EXCEPTION."""

    code = "X04"
    severity: int = 1
    catalog: str = "WMQIv6"

    @property
    def state(self) -> str:
        return f"U{self.number:05d}"


class DatabaseFailed(EsqlRunError):
    code = "X05"
    hint = "SQLSTATE, SQLCODE and SQLERRORTEXT tell a HANDLER what the database said."


class BudgetSpent(EsqlRunError):
    code = "X06"
    hint = "The program loops or recurses without end, or the message needs a larger budget."
