# SPDX-License-Identifier: Apache-2.0
"""One run of a module on one message: its trees, its budget, and whom it talks to.

The budget stops programs that loop or recurse without end: every turn of a
loop and every call costs a step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol

from entrepot.errors import BudgetSpent, EsqlRunError
from entrepot.models.tree import Assembly, Element, Root

STEPS_MAX = 10_000_000
"""Turns of loops and calls that one run may take."""
CALLS_DEEP_MAX = 150
"""Calls inside of calls. Python allows a thousand frames, and a call takes up to three."""


class Database(Protocol):
    """What ESQL needs of a database; the flow supplies it. `?` stands for a bound value in every text."""

    def query(self, source: str, text: str, values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Names of the columns, and the rows.

        Raises:
            DatabaseFailed: With SQLSTATE, native error and text.
        """

    def execute(self, source: str, text: str, values: Sequence[Any]) -> int:
        """Do something; how many rows it concerned."""

    def call(self, source: str, name: str, values: Sequence[Any], directions: Sequence[str], returns: bool) -> Any:
        """A stored procedure: (return value, values of all parameters, result sets)."""

    def finish(self, source: str, commit: bool) -> None:
        """COMMIT or ROLLBACK."""


Emit = Callable[[str, str, Assembly], None]
"""What PROPAGATE calls: "terminal" or "label", its name, and the message."""

Report = Callable[[str, int, str, tuple[str, ...]], None]
"""What LOG calls: "EVENT" or "USER TRACE", message number, text, inserts."""


class Run:
    """All that a compiled function needs beside its arguments."""

    __slots__ = (
        "_now",
        "assembly",
        "database",
        "database_source",
        "depth",
        "emit",
        "error",
        "functions",
        "labels",
        "local_zone",
        "mode",
        "output",
        "output_root",
        "properties",
        "report",
        "shared",
        "sqlcode",
        "sqlerrortext",
        "sqlnativeerror",
        "sqlstate",
        "steps",
        "throw_on_database_error",
        "variables",
    )

    def __init__(
        self,
        assembly: Assembly,
        *,
        emit: Emit | None = None,
        database: Database | None = None,
        database_source: str = "",
        properties: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        report: Report | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        now: datetime | None = None,
        local_zone: tzinfo = UTC,
        steps: int = STEPS_MAX,
        throw_on_database_error: bool = True,
        mode: str = "message",
    ) -> None:
        self.assembly = assembly
        """The message that came in."""
        self.output_root = Root()
        self.output = Assembly(self.output_root, assembly.environment)
        """The one that a Compute node makes."""
        self.emit = emit
        self.database = database
        self.database_source = database_source
        self.properties = properties or {}
        self.labels = labels or {}
        self.report = report
        self.functions = functions or {}
        self._now = now
        self.local_zone = local_zone
        self.steps = steps
        self.depth = 0
        self.throw_on_database_error = throw_on_database_error
        self.mode = mode
        """Which of the output trees go on, the rest being the input's: message, destination, exception, all, ..."""
        self.sqlcode = 0
        self.sqlstate = ""
        self.sqlerrortext = ""
        self.sqlnativeerror = 0
        self.error: EsqlRunError | None = None
        """What a HANDLER is handling, for RESIGNAL."""
        self.variables: Any = None
        """The module's own variables; compiled code puts them here."""
        self.shared: Any = None

    @property
    def input_root(self) -> Root:
        return self.assembly.root

    root = input_root

    @property
    def environment(self) -> Element:
        return self.assembly.environment

    @property
    def input_local_environment(self) -> Element:
        return self.assembly.local_environment

    local_environment = input_local_environment

    @property
    def input_exception_list(self) -> Element:
        return self.assembly.exception_list

    exception_list = input_exception_list

    @property
    def output_local_environment(self) -> Element:
        return self.output.local_environment

    @property
    def output_exception_list(self) -> Element:
        return self.output.exception_list

    @property
    def random(self) -> random.Random:
        return _random

    @property
    def now(self) -> datetime:
        """The time of this run, the same whenever it is asked."""
        if self._now is None:
            self._now = datetime.now(UTC)
        return self._now

    # --- the budget ---------------------------------------------------------------------------

    def spent(self) -> None:
        """
        Raises:
            BudgetSpent: Always; called when `steps` has fallen below nothing.
        """
        raise BudgetSpent("the program took more steps than its budget allows: it loops without end", number=2230)

    def enter(self) -> None:
        """A call begins."""
        self.steps -= 1
        self.depth += 1
        if self.steps < 0:
            self.spent()
        if self.depth > CALLS_DEEP_MAX:
            raise BudgetSpent(f"more than {CALLS_DEEP_MAX} calls inside of each other: it recurses without end")

    # --- exceptions -----------------------------------------------------------------------------

    def signal(self, error: EsqlRunError) -> None:
        """A HANDLER takes over: SQLSTATE and its kin tell it what happened."""
        self.error = error
        self.sqlstate = error.state
        self.sqlcode = -1
        self.sqlnativeerror = error.native_error
        self.sqlerrortext = error.problem

    def resignal(self) -> None:
        error = self.error
        if error is None:
            raise EsqlRunError("RESIGNAL outside of a HANDLER", number=2951)
        raise error

    def succeeded(self, rows: int = 0) -> None:
        """A database did as it was told."""
        del rows
        self.sqlcode = 0
        self.sqlstate = "00000"
        self.sqlerrortext = ""
        self.sqlnativeerror = 0

    def failed(self, error: EsqlRunError) -> None:
        """A database did not; without throw-on-error the program looks at SQLSTATE itself.

        Raises:
            EsqlRunError: The error itself, when the node throws on database errors.
        """
        self.sqlstate = error.state
        self.sqlcode = -1
        self.sqlnativeerror = error.native_error
        self.sqlerrortext = error.problem
        if self.throw_on_database_error:
            raise error

    def source(self, name: str | None) -> str:
        """The data source of a statement: the one it names, or the node's."""
        return name if name else self.database_source


_random = random.Random()  # noqa: S311 -- RAND is no secret
