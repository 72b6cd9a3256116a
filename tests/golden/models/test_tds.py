# SPDX-License-Identifier: Apache-2.0
"""TDS models with a message and the tree it means: [name, value or children], by hand."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from entrepot.models.element_types import NAME
from entrepot.models.logical import MessageFormat
from entrepot.models.message_sets import load_set
from entrepot.models.mrm import MRM
from entrepot.models.tree import Element, Folder

HERE = Path(__file__).parent
CASES = sorted(path.stem for path in HERE.glob("tds_*.bin"))


def tree(element: Element) -> list[Any]:
    if element.kind == NAME:
        return [element.key, [tree(child) for child in element.children]]
    value = element.value
    if isinstance(value, date | Decimal):
        value = f"{type(value).__name__.lower()} {value}"
    return [element.key, value]


def test_there_are_golden_messages() -> None:
    assert CASES == ["tds_orders", "tds_records"]


@pytest.mark.parametrize("case", CASES)
def test_the_tree_is_the_one_written_down_and_writes_the_same_bytes(case: str) -> None:
    known = load_set(HERE / f"{case}.yaml")
    (name,) = known.messages
    body = (HERE / f"{case}.bin").read_bytes()
    folder = Folder(MRM, body, model=MessageFormat(known, name, "TDS1"))
    assert [tree(child) for child in folder.children] == json.loads((HERE / f"{case}.json").read_text())
    folder.changed(structure=True)
    assert folder.render() == body
