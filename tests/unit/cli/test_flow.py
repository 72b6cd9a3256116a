# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from entrepot.flows import Kernel, load_flow
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message

from .conftest import Complaint, Shell

EXAMPLES = Path(__file__).parents[3] / "examples" / "flows"
ORDERS = EXAMPLES / "orders.yaml"

BAD = """\
flow: bad
nodes:
  In: {type: MQInput, quue: Q, to: Out}
  Out: {type: MQOutput, queue: OUT, to: Nobody}
  Lost: {type: Trace}
"""
LOST = """\
flow: lost
nodes:
  In: {type: MQInput, queue: IN, to: Out}
  Out: {type: MQOutput, queue: OUT}
  Lost: {type: Trace}
"""


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return path


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    path = tmp_path / "lost.yaml"
    path.write_text(LOST)
    return path


# --- show -----------------------------------------------------------------------------------------------------


def test_show_draws_the_flow_and_its_subflows(shell: Shell) -> None:
    assert shell("flow", "show", ORDERS).stdout.splitlines() == [
        "orders",
        "└── Orders (MQInput ORDERS)",
        "    ├── out → Total (Compute Total)",
        "    │   └── out → Audit (subflow audit)",
        "    │       └── out → Large (Filter)",
        "    │           ├── true → Desk (MQOutput DESK)",
        "    │           ├── false → Done (MQOutput DONE)",
        "    │           └── unknown → Done (above)",
        "    └── catch → Refuse (MQOutput REFUSED)",
        "audit",
        "└── in (Input)",
        "    └── out → Note (Trace)",
        "        └── out → out (Output)",
    ]


def test_show_puts_subflows_in_their_places(shell: Shell) -> None:
    said = shell("flow", "show", ORDERS, "--expand").stdout
    assert "out → Audit/Note (Trace)" in said
    assert "audit\n" not in said


def test_show_writes_a_picture(shell: Shell, tmp_path: Path) -> None:
    picture = tmp_path / "orders.svg"
    done = shell("flow", "show", ORDERS, "--svg", picture)
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert "7 nodes, 7 links" in done.stderr
    assert done.stdout == ""


def test_show_answers_in_json(shell: Shell) -> None:
    told = shell.json("flow", "show", ORDERS)
    assert told["flow"] == "orders"
    assert told["nodes"][0]["properties"] == {"queue": "ORDERS", "domain": "XMLNSC"}
    assert told["links"][0] == {"from": "Orders", "terminal": "out", "to": "Total", "input": "in"}
    assert [each["flow"] for each in told["subflows"]] == ["audit"]
    assert told["mistakes"] == []


def test_show_draws_what_it_can_of_a_flow_with_mistakes_and_tells_them(shell: Shell, bad: Path) -> None:
    said = shell("flow", "show", bad, code=1).stdout
    assert "out → Nobody (missing)" in said
    assert "MQInput has no property 'quue'; did you mean queue?" in said


# --- check ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_have_no_mistakes(shell: Shell, path: Path) -> None:
    if not path.name.endswith(".test.yaml"):
        assert shell("flow", "check", path).stdout == "1 flow: no mistakes, no warnings.\n"


def test_check_tells_everything_with_its_place_and_advice(shell: Shell, bad: Path) -> None:
    said = shell("flow", "check", bad, ORDERS, code=1).stdout
    for line in (
        f"{bad}:3:3: mistake: In: queue is missing",
        f"{bad}:3:29: mistake: In: MQInput has no property 'quue'; did you mean queue?",
        "  It has queue, domain,",
        f"{bad}:4:41: mistake: Out: its terminal out is linked to 'Nobody', and there is no such node",
        "  There is In, Out, Lost.",
        "2 flows: 3 mistakes, no warnings.",
    ):
        assert line in said


def test_warnings_alone_are_a_success(shell: Shell, lost: Path) -> None:
    said = shell("flow", "check", lost).stdout
    assert f"{lost}:5:3: warning: Lost: no message ever gets here" in said
    assert "1 flow: no mistakes, 1 warning." in said


def test_check_answers_in_json(shell: Shell, lost: Path) -> None:
    assert shell.json("flow", "check", lost) == {
        "files": [str(lost)],
        "mistakes": [
            {
                "where": f"{lost}:5:3",
                "severity": "warning",
                "problem": "Lost: no message ever gets here",
                "advice": "Link something to it, or take it away.",
            }
        ],
    }


def test_file_that_is_no_flow_is_a_clear_error(complaint: Complaint, tmp_path: Path) -> None:
    assert "No such file or directory" in complaint("flow", "check", tmp_path / "gone.yaml")
    assert "a .yaml, .yml, .msgflow or .subflow file" in complaint("flow", "show", tmp_path / "orders.txt")


def test_texts_of_a_file_cannot_play_tricks_on_a_terminal(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "tricks.yaml"
    path.write_text('flow: f\nnodes:\n  "A\\e[31m[red]": {type: "MQ\\e]0;x"}\n')
    for command in ("show", "check"):
        said = shell("flow", command, path, code=1).stdout
        assert "\x1b" not in said
        assert "[red]" in said


# --- nodes ----------------------------------------------------------------------------------------------------


def test_nodes_lists_the_types(shell: Shell) -> None:
    said = shell("flow", "nodes").stdout
    assert "Messages from a queue." in said
    assert "RouteToLabel" in said


def test_nodes_tells_everything_about_one(shell: Shell) -> None:
    said = " ".join(shell("flow", "nodes", "MQInput").stdout.split())
    assert "MQInput: Messages from a queue." in said
    assert "outputs out, failure, catch" in said
    assert "queue text must be said" in said
    assert "transaction yes, no, automatic automatic yes: outputs and input are one unit of work" in said


def test_nodes_answers_in_json(shell: Shell) -> None:
    (told,) = shell.json("flow", "nodes", "Filter")
    assert told["outputs"] == ["true", "false", "unknown", "failure"]
    assert told["properties"][0]["ibm"] == "filterExpression"


def test_nodes_knows_what_was_meant(complaint: Complaint) -> None:
    assert "there is no node type 'Comput'" in complaint("flow", "nodes", "Comput")


# --- the example ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "queue", "expected"),
    [
        (
            b"<order><quantity>20</quantity><price>100.5</price></order>",
            "DESK",
            b"<order><quantity>20</quantity><price>100.5</price><total>2010.0</total><currency>EUR</currency></order>",
        ),
        (
            b"<order><quantity>2</quantity><price>3</price></order>",
            "DONE",
            b"<order><quantity>2</quantity><price>3</price><total>6</total><currency>EUR</currency></order>",
        ),
        (b"<order><quantity>many</quantity></order>", "REFUSED", b"<order><quantity>many</quantity></order>"),
    ],
)
def test_orders_of_the_example_go_where_they_should(body: bytes, queue: str, expected: bytes) -> None:
    stage = MemoryWorld()
    stage.feed(Kernel(load_flow(ORDERS)), "ORDERS", Message(body=body))
    assert {name: [message.body for message in messages] for name, messages in stage.queues.items()} == {
        queue: [expected]
    }
