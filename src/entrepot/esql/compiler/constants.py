# SPDX-License-Identifier: Apache-2.0
"""What generated source refers to by name, because it cannot be written down."""

from __future__ import annotations

from typing import Any

from entrepot.esql.compiler.source import Code


class Constants:
    """Names and values that a program's functions find in their globals."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def add(self, value: Any, stem: str) -> str:
        """A new name for a value."""
        name = f"{stem}_{len(self.values) + 1}"
        self.values[name] = value
        return name

    def define(self, name: str, value: Any) -> None:
        self.values[name] = value

    def caster(self, type_name: str, precision: int | None, scale: int | None, qualifier: str) -> Any:
        return self.values["caster"](type_name, precision, scale, qualifier)

    def converted(self, code: Code, type_name: str) -> str:
        """A value on its way into something declared with a type."""
        if code.type == type_name or type_name in ("ROW", "REFERENCE", "LIST", ""):
            return code.text
        if code.text == "None":
            return "None"
        name = f"to_{type_name}"
        self.define(name, self.caster(type_name, None, None, ""))
        return f"{name}({code.text})"
