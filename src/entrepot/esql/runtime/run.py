# SPDX-License-Identifier: Apache-2.0
"""One run of a module on one message: its trees, its budget, and what it calls.

The budget stops programs that loop or recurse without end: every turn of a
loop, every call, every row of a SELECT and every copied element costs a step.
It is given out in portions, and with each the memory that the run has taken
is looked at, so that no turn of a loop has to.
"""

from __future__ import annotations

import mmap
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from entrepot.errors import BudgetSpent, EsqlRunError
from entrepot.limits import MIB, RUN_MEMORY_BYTES_MAX
from entrepot.models.tree import Assembly, Element, Root

STEPS_MAX = 10_000_000
"""Turns of loops, calls, rows and copies that one run may take."""
STEPS_AT_A_TIME = 10_000
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


class EsqlRun:
    """All that a compiled function needs beside its arguments.

    What a node leaves as it is stays in the class: a run is made for every message.
    """

    emit: Emit | None = None
    database: Database | None = None
    database_source = ""
    """The data source of statements that name none."""
    throw_on_database_error = True
    properties: Mapping[str, Any] = MappingProxyType({})
    """User-defined properties: what EXTERNAL variables have."""
    labels: Mapping[str, str] = MappingProxyType({})
    """MessageFlowLabel and its kin."""
    report: Report | None = None
    mode = "message"
    """Which of the output trees go on, the rest being the input's: message, destination, exception, all, ..."""
    local_zone: tzinfo | None = None
    """What local times are local to; None is what `dates.use_zone` said, or the machine's zone."""
    steps = STEPS_AT_A_TIME
    """Of the budget, what is left of the present portion."""
    steps_later = STEPS_MAX - STEPS_AT_A_TIME
    """What is not yet given out."""
    depth = 0
    sqlcode = 0
    sqlstate = "00000"
    sqlerrortext = ""
    sqlnativeerror = 0
    error: EsqlRunError | None = None
    """What a HANDLER is handling, for RESIGNAL."""
    variables: Any = None
    """The module's own variables; compiled code puts them here."""
    shared: Any = None
    _now: datetime | None = None
    _resident_bytes: int | None = None
    """Memory of the process when the second portion of the budget was given out."""
    _output: Assembly | None = None
    _output_root: Root | None = None

    def __init__(self, assembly: Assembly, **options: Any) -> None:
        """With the attributes above as options, and `now`, the time of the run."""
        self.assembly = assembly
        for name, value in options.items():
            if name == "now":
                self._now = value
            elif name == "steps":
                self.steps = min(value, STEPS_AT_A_TIME)
                self.steps_later = value - self.steps
            elif name in _OPTIONS:
                setattr(self, name, value)
            else:
                raise TypeError(f"a run has no option {name}; it has {', '.join(sorted(_OPTIONS))}, steps and now")

    @property
    def output_root(self) -> Root:
        root = self._output_root
        if root is None:
            root = self._output_root = Root()
        return root

    @property
    def output(self) -> Assembly:
        """The message that a Compute node makes."""
        if self._output is None:
            self._output = Assembly(self.output_root, self.assembly.environment)
        return self._output

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
        """Called when `steps` has fallen below nothing: give out the next portion.

        Raises:
            BudgetSpent: There is none, or the run has taken too much memory.
        """
        missing = -self.steps
        if missing > self.steps_later:
            self.steps_later = 0
            raise BudgetSpent("the program took more steps than its budget allows: it loops without end", number=2230)
        self._require_memory()
        portion = min(max(missing, STEPS_AT_A_TIME), self.steps_later)
        self.steps += portion
        self.steps_later -= portion

    def charge(self, steps: int) -> None:
        """Work that was done at once costs more than one step: copies of trees, large strings."""
        self.steps -= steps
        if self.steps < 0:
            self.spent()

    def _require_memory(self) -> None:
        taken = resident_bytes()
        if self._resident_bytes is None:
            self._resident_bytes = taken
        elif taken - self._resident_bytes > RUN_MEMORY_BYTES_MAX:
            raise BudgetSpent(f"the program took more than {RUN_MEMORY_BYTES_MAX // MIB} MiB of memory", number=2230)

    def enter(self) -> None:
        """A call begins."""
        self.steps -= 1
        self.depth += 1
        if self.steps < 0:
            self.spent()
        if self.depth > CALLS_DEEP_MAX:
            raise BudgetSpent(f"more than {CALLS_DEEP_MAX} calls inside of each other: it recurses without end")

    # --- exceptions -----------------------------------------------------------------------------

    @contextmanager
    def handling(self, error: EsqlRunError) -> Iterator[None]:
        """A HANDLER's own SQLSTATE and its kin: they tell what happened, and end with the handler."""
        before = (self.error, self.sqlstate, self.sqlcode, self.sqlnativeerror, self.sqlerrortext)
        self.error, self.sqlstate, self.sqlcode = error, error.state, -1
        self.sqlnativeerror, self.sqlerrortext = error.native_error, error.problem
        try:
            yield
        finally:
            self.error, self.sqlstate, self.sqlcode, self.sqlnativeerror, self.sqlerrortext = before

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


_OPTIONS = frozenset(
    {
        "database",
        "database_source",
        "emit",
        "labels",
        "local_zone",
        "mode",
        "properties",
        "report",
        "throw_on_database_error",
    }
)


_STATUS = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        return int(_STATUS.read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


_random = random.Random()  # noqa: S311 -- RAND is no secret
