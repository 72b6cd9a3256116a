# SPDX-License-Identifier: Apache-2.0
"""The Python names that generated source may use."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from entrepot.compiled import compiled
from entrepot.errors import EsqlRunError
from entrepot.esql.runtime import casting, comparing, database, fields, operators, records, rows, statements
from entrepot.models.tree import Element, Root
from entrepot.models.tree_state import STRUCTURE


def vocabulary() -> dict[str, Any]:
    """All of it, to be the globals of compiled programs."""
    words: dict[str, Any] = {
        "Element": Element,
        "Root": Root,
        "STRUCTURE": STRUCTURE,
        "EsqlRunError": EsqlRunError,
        "HANDLED": statements.HANDLED,
        "interval_of": operators.interval_of,
    }
    for module in (operators, comparing, casting, database, fields, records, rows, statements):
        words.update(_public(module))
    if (native := compiled("fields")) is not None:
        words.update((function.__name__, function) for function in native.WORDS)
    return words


def _public(module: ModuleType) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    }
