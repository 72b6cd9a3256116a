# SPDX-License-Identifier: Apache-2.0
"""SWIFT messages with the trees that were written down for them by hand: [name, value, children...]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from entrepot.models.message_sets import find_format
from entrepot.models.mrm import MRM
from entrepot.models.swift import validate
from entrepot.models.tree import Element, Folder

HERE = Path(__file__).parent
MESSAGES = sorted(path.stem.removeprefix("swift_").upper() for path in HERE.glob("swift_*.bin"))


def tree(element: Element) -> list[Any]:
    return [element.key, element.value, *map(tree, element.children)]


def expected(message: str) -> Any:
    def filled(node: list[Any]) -> list[Any]:
        return [node[0], node[1], *map(filled, node[2:])]

    return list(map(filled, json.loads((HERE / f"swift_{message.lower()}.json").read_text())))


def test_there_is_a_golden_message_of_each_type() -> None:
    assert MESSAGES == ["MT103", "MT543", "MT940"]


@pytest.mark.parametrize("message", MESSAGES)
def test_the_tree_is_the_one_written_down_and_writes_the_same_bytes(message: str) -> None:
    body = (HERE / f"swift_{message.lower()}.bin").read_bytes()
    folder = Folder(MRM, body, model=find_format("SWIFT", message, "TDS1"))
    assert [tree(child) for child in folder.children] == expected(message)
    folder.dirty = True
    assert folder.render() == body
    assert validate(body) == ()


@pytest.mark.parametrize("message", MESSAGES)
def test_a_tree_built_from_what_is_written_down_gives_the_bytes(message: str) -> None:
    folder = Folder(MRM, model=find_format("SWIFT", message, "TDS1"))

    def build(parent: Element, node: list[Any]) -> None:
        # Only the innermost values: a program that fills a message in sets the parts.
        child = parent.add(node[0], None if len(node) > 2 else node[1])
        for below in node[2:]:
            build(child, below)

    for node in expected(message):
        build(folder, node)
    assert folder.render() == (HERE / f"swift_{message.lower()}.bin").read_bytes()
