# SPDX-License-Identifier: Apache-2.0
"""Commands of the administration language."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class MqscError(EntrepotError):
    code = "A00"


class MqscSyntaxError(MqscError):
    source: str
    line: int
    column: int
    problem: str
    line_text: str
    code = "A01"
    text = "{source}, line {line}, column {column}: {problem}"

    @property
    def advice(self) -> str:
        return f"\n  {self.line_text}\n  {' ' * (self.column - 1)}^"


class MqscCommandFailed(MqscError):
    source: str
    line: int
    column: int
    problem: str
    code = "A02"
    text = "{source}, line {line}, column {column}: {problem}"


class MqscScriptFailed(MqscError):
    failures: tuple[MqscError, ...]
    code = "A03"
    outcome = "unknown"

    @property
    def what(self) -> str:
        return f"{len(self.failures)} commands failed:\n" + "\n".join(str(failure) for failure in self.failures)

    hint = "\nThe other commands were carried out."
