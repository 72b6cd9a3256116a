# SPDX-License-Identifier: Apache-2.0
"""docs/FLOWS.md tells of every node type what it declares, and its examples are flows."""

from __future__ import annotations

from pathlib import Path

import yaml

from entrepot.flows import node_reference
from entrepot.flows.checking import find_mistakes
from entrepot.flows.loading import read_flow
from entrepot.flows.nodes import NODE_TYPES, find_type
from entrepot.flows.notation import KEYS

from .pages import DOCS, ROOT, blocks, table_rows

PAGE = DOCS / "FLOWS.md"
EXAMPLES = ROOT / "examples" / "flows"


def test_the_page_tells_of_each_node_type_what_it_declares() -> None:
    """`entrepot flow nodes --markdown` prints what belongs there."""
    _, _, told = PAGE.read_text().partition("\n## Nodes\n")
    written = {section.partition("\n")[0]: f"### {section.strip()}" for section in told.split("\n### ")[1:]}
    declared = {name: node_reference.markdown(find_type(name)).strip() for name in NODE_TYPES}
    assert [name for name in declared if written.get(name) != declared[name]] == []
    assert list(written) == list(declared)


def test_the_page_has_every_key_of_the_notation() -> None:
    told = {word for row in table_rows(PAGE, 2) for word in row[0].replace("`", "").split(" or ")}
    assert set(KEYS) - told == set()


def test_examples_of_the_page_are_those_of_the_examples() -> None:
    """So they are checked and run where those are."""
    shown = [yaml.safe_load(text) for text in blocks(PAGE, "yaml")]
    assert shown == [yaml.safe_load((EXAMPLES / name).read_text()) for name in ("orders.yaml", "audit.yaml")]


def test_python_of_the_page_makes_a_flow(tmp_path: Path) -> None:
    (program,) = blocks(PAGE, "python")
    names: dict[str, object] = {}
    exec(program, names)
    assert "flow" in names


def test_flow_of_the_page_has_no_mistakes() -> None:
    flow = read_flow(blocks(PAGE, "yaml")[0], str(EXAMPLES / "orders.yaml"))
    assert find_mistakes(flow) == []
