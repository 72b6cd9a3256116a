# SPDX-License-Identifier: Apache-2.0
"""The event handlers of a Collector: rows of a table, read and checked.

- {terminal: orders, quantity: 2, correlation_path: InputRoot.XMLNSC.order.customer}
- {terminal: file, timeout_s: 30, correlation_path: $LocalEnvironment/File/Name, correlation_pattern: "*.csv"}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from entrepot.errors import EsqlInvalid
from entrepot.esql import EsqlModule, EsqlRun, compile_statements
from entrepot.flows.nodes.node import FlowMistake

_PLACE = "Correlation"
_TREES = ("Root", "Body", "Properties", "LocalEnvironment", "ExceptionList")
_NAMES = {**{tree: f"Input{tree}" for tree in _TREES}, **{f"Input{tree}": f"Input{tree}" for tree in _TREES}}
_BARE_TREE = re.compile(rf"(?<![\w.\"'])({'|'.join(_TREES)})(?=\.)")


class EventHandler(NamedTuple):
    """What one terminal takes for a collection."""

    terminal: str
    quantity: int
    """0 for any number."""
    timeout_s: float
    """How long from its first message on; 0 for ever."""
    path: EsqlModule | None
    pattern: str

    @property
    def is_required(self) -> bool:
        """Whether a collection waits for it."""
        return bool(self.quantity or self.timeout_s)


def read_handler(row: Mapping[str, Any], where: str) -> EventHandler:
    """A row without mistakes as what the node works with."""
    path = str(row.get("correlation_path") or "")
    return EventHandler(
        str(row["terminal"]),
        int(row.get("quantity", 1) or 0),
        float(row.get("timeout_s", 0) or 0),
        _compiled(path, where) if path else None,
        str(row.get("correlation_pattern") or ""),
    )


def _compiled(path: str, where: str) -> EsqlModule:
    """A program that leaves the text of a path's value in OutputRoot."""
    from entrepot.flows.xpath import is_xpath, to_value

    # Filters call the trees otherwise than Computes; either may be meant.
    value = to_value(path, names=_NAMES) if is_xpath(path) else _BARE_TREE.sub(r"Input\1", path)
    return compile_statements(f"SET OutputRoot.{_PLACE} = CAST({value} AS CHARACTER);", where)


def correlation_of(handler: EventHandler, run: EsqlRun) -> str:
    """The correlation string of a message; empty where it has none."""
    if handler.path is None:
        return ""
    handler.path.run(run)
    value = run.output_root.get(_PLACE)
    return "" if value is None else wildcard_match(str(value), handler.pattern)


def row_mistakes(where: str, row: Mapping[str, Any]) -> list[FlowMistake]:
    """What is wrong with a row of the table, beside its terminal."""
    found = []
    for name in ("quantity", "timeout_s"):
        value = row.get(name, 0) or 0
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        if not is_number or (name == "quantity" and value % 1):
            found.append(FlowMistake(where, f"{name} is {row[name]!r}", "Write a number; 0 is no limit."))
    if str(row.get("correlation_pattern") or "").count("*") > 1:
        found.append(FlowMistake(where, "its pattern has several *", "One * stands for the correlation string."))
    path = str(row.get("correlation_path") or "")
    if row.get("correlation_pattern") and not path:
        found.append(FlowMistake(where, "it has a pattern but no path", "Say correlation_path too."))
    try:
        if path:
            _compiled(path, where)
    except EsqlInvalid as error:
        found += [FlowMistake(f"{at[0]}:{at[1]}:{at[2]}", at[3]) for at in error.mistakes]
    except ValueError as error:
        found.append(FlowMistake(where, str(error)))
    return found


def wildcard_match(value: str, pattern: str) -> str:
    """What the * of a pattern stands for in a value; empty when they do not fit."""
    if not pattern:
        return value
    if "*" not in pattern:
        return value if value == pattern else ""
    before, _, after = pattern.partition("*")
    if len(value) < len(before) + len(after) or not value.startswith(before) or not value.endswith(after):
        return ""
    return value[len(before) : len(value) - len(after)]
