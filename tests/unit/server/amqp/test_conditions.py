# SPDX-License-Identifier: Apache-2.0
"""Errors in AMQP's words, and docs/AMQP.md, which has the same table."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from entrepot import errors
from entrepot.errors import EntrepotError, QueueNotFound
from entrepot.server.amqp import conditions
from entrepot.server.amqp.addresses import parse_address
from entrepot.server.amqp.conditions import refusal_of
from entrepot.server.amqp.mapping import KEPT_PROPERTIES
from folding import for_each

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "AMQP.md").read_text()
TABLE = dict(re.findall(r"^\| `(amqp:[\w:-]+)` \| (.+) \|$", PAGE, re.MULTILINE))
ERRORS = {name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, EntrepotError)}


def of_kind(kind: type[EntrepotError]) -> EntrepotError:
    """An error of a kind, whatever its fields are."""
    error = kind.__new__(kind)
    for name, field in getattr(kind, "__dataclass_fields__", {}).items():
        setattr(error, name, () if str(field.type).startswith("tuple") else 0)
    return error


def test_description_is_the_errors_text() -> None:
    error = QueueNotFound("ORDERS")
    refusal = refusal_of(error)
    assert (refusal.condition, refusal.description) == ("amqp:not-found", str(error))


@for_each(
    ("condition", "name"),
    [(condition, name) for condition, text in TABLE.items() for name in re.findall(r"\b[A-Z]\w+[a-z]\w*\b", text)],
)
def test_page_has_the_condition_of_each_error(condition: str, name: str) -> None:
    assert refusal_of(of_kind(ERRORS[name])).condition == condition


def test_page_has_every_condition() -> None:
    known = {value for name, value in vars(conditions).items() if name.isupper() and isinstance(value, str)}
    assert known == set(TABLE)


def test_page_has_every_kept_property() -> None:
    assert [name for name in sorted(KEPT_PROPERTIES) if f"`{name}`" not in PAGE] == []


@for_each(
    "address", re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (`ORDERS.*?|`topic.*?) \|", PAGE, re.MULTILINE)))
)
def test_addresses_of_the_page_are_understood(address: str) -> None:
    kind: Any = "topic" if "topic" in address else "queue"
    if address != "topic":  # which is a capability
        assert parse_address(address).kind == kind
