# SPDX-License-Identifier: Apache-2.0
"""The root of all errors, and what every error can tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, dataclass_transform

Outcome = Literal["not_done", "done", "unknown"]

_NAME_IN_COMMAND = re.compile(r"\(\{(\w+)\}\)")
_PLAIN_NAME = re.compile(r"[A-Z0-9._/%]+")
_FOLDED = "(MQSC reads names in capitals unless they are in quotes.)"


@dataclass_transform(eq_default=False)
class EntrepotError(Exception):
    """The root: `except EntrepotError` catches what Entrepot raises on purpose, and no bug."""

    code: ClassVar[str] = "E00"
    reason: ClassVar[int | None] = None
    outcome: ClassVar[Outcome] = "not_done"
    retryable: ClassVar[bool] = False
    text: ClassVar[str] = ""
    hint: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(eq=False, repr=False)(cls)

    def _values(self) -> dict[str, Any]:
        # The root itself is no dataclass, only what derives from it.
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._values().values())

    @property
    def advice(self) -> str:
        """What the reader of this error can do about it."""
        values = self._values()
        folded = False

        def quoted(found: re.Match[str]) -> str:
            # A name in a command has to mean the same there as it did here.
            nonlocal folded
            name = str(values[found[1]])
            if not name or _PLAIN_NAME.fullmatch(name):
                return f"({name})"
            folded = folded or name != name.upper()
            return "('" + name.replace("'", "''").replace("{", "{{").replace("}", "}}") + "')"

        advice = _NAME_IN_COMMAND.sub(quoted, self.hint).format(**values)
        return f"{advice} {_FOLDED}" if folded else advice

    @property
    def what(self) -> str:
        """What went wrong, without name, code and advice."""
        return self.text.format(**self._values())

    def __str__(self) -> str:
        number = f" {self.reason}" if self.reason else ""
        return f"{type(self).__name__} [{self.code}{number}]: {self.what}. {self.advice}".rstrip()
