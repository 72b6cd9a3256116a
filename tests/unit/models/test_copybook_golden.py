# SPDX-License-Identifier: Apache-2.0
"""Copybook, bytes and tree: the bytes read as the tree, and the tree written as the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from entrepot.models.copybook import load_copybook
from entrepot.models.cwf import compile_cwf
from entrepot.models.tree import Element
from entrepot.models.tree_json import tree_from_json, tree_to_json

GOLDEN = Path(__file__).parents[2] / "golden" / "models"


def read_bytes(path: Path) -> tuple[int, int, bytes]:
    """Code page, encoding and bytes of a .hex file: each line has groups of hexadecimal digits, then remarks."""
    first, *lines = path.read_text().splitlines()
    ccsid, encoding = re.findall(r"[0-9]+", first)[:2]
    digits = "".join(re.match(r"(?:(?:[0-9A-F]{2})+\s+)*", line)[0] for line in lines)  # type: ignore[index]
    return int(ccsid), int(encoding), bytes.fromhex(digits)


@pytest.mark.parametrize("name", ["warehouse_order", "synchronized_parts"])
def test_bytes_of_a_copybook_are_the_tree_and_back(name: str) -> None:
    message_set = load_copybook(GOLDEN / f"{name}.cpy")
    ccsid, encoding, body = read_bytes(GOLDEN / f"{name}.hex")
    expected = json.loads((GOLDEN / f"{name}.json").read_text())
    codec = compile_cwf(message_set, expected["name"], "CWF1")
    top = Element(expected["name"])
    top.fill(codec.parse(body, ccsid, encoding))
    assert tree_to_json(top) == expected
    assert codec.render(tree_from_json(expected), ccsid, encoding).hex() == body.hex()
