# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.drawing import as_json, outline, with_subflows, words_for_row
from entrepot.flows.layout import FlowLayout, lay_out
from entrepot.flows.picture import svg

SVG = "{http://www.w3.org/2000/svg}"


def orders() -> FlowDefinition:
    flow = FlowDefinition("orders")
    flow.node("MQInput", "In", queue="IN")
    flow.node("Filter", "Large", condition="TRUE")
    flow.node("MQOutput", "Desk", queue="DESK")
    flow.node("MQOutput", "Done", queue="DONE")
    flow.link("In", "Large")
    flow.link("In", "Done", terminal="catch")
    flow.link("Large", "Desk", terminal="true")
    flow.link("Large", "Done", terminal="false")
    return flow


def random_flow(seed: int, nodes: int) -> FlowDefinition:
    """Nodes linked to some before them, and a few links back."""
    chance = random.Random(seed)
    flow = FlowDefinition(f"random {seed}")
    flow.node("MQInput", "N0", queue="IN")
    names = ["N0"]
    terminals = ("out", "failure", "out1", "out2", "out3", "out4")
    for number in range(1, nodes):
        name = f"N{number}" + "x" * chance.randrange(30)
        flow.node("Compute", name, statements="SET OutputRoot = InputRoot;")
        for _ in range(chance.choice((1, 1, 2, 3))):
            flow.link(chance.choice(names[-7:]), name, terminal=chance.choice(terminals))
        names.append(name)
    for _ in range(nodes // 8):
        late, early = chance.sample(range(nodes), 2)
        flow.link(names[late], names[early], terminal=chance.choice(terminals))
    return flow


# --- the tree -------------------------------------------------------------------------------------------------


def lines_of(flow: FlowDefinition) -> list[str]:
    """What `entrepot flow show` draws, indented instead of with guides."""
    return [
        line
        for each in with_subflows(flow)
        for line in (each.name, *("  " * row.depth + "".join(words_for_row(row)) for row in outline(each)))
    ]


def test_tree_goes_from_the_input_node_terminal_by_terminal() -> None:
    assert lines_of(orders()) == [
        "orders",
        "In (MQInput IN)",
        "  out → Large (Filter)",
        "    true → Desk (MQOutput DESK)",
        "    false → Done (MQOutput DONE)",
        "  catch → Done (above)",
    ]


def test_tree_ends_where_a_circle_closes() -> None:
    flow = orders()
    flow.link("Desk", "Large")
    flow.link("Large", "Large", terminal="failure")
    assert [row.name for row in outline(flow) if row.is_repeated] == ["Large", "Large", "Done"]


def test_labels_and_nodes_that_nobody_reaches_are_drawn_too() -> None:
    flow = orders()
    flow.node("Label", "Europe", label="EU")
    flow.node("Trace", "Lost")
    flow.node("Trace", "Round")
    flow.link("Europe", "Desk")
    flow.link("Round", "Round")
    assert [row.name for row in outline(flow) if not row.depth] == ["In", "Europe", "Lost", "Round"]


def test_links_to_nowhere_and_to_other_terminals_are_seen() -> None:
    flow = orders()
    flow.link("In", "Nobody", terminal="failure")
    flow.link("Done", "Desk", input="control")
    text = "\n".join(lines_of(flow))
    assert "failure → Nobody (missing)" in text
    assert "out → Desk.control (above)" in text


def test_subflows_are_drawn_below_once() -> None:
    part = FlowDefinition("part")
    part.node("Input", "in")
    part.node("Output", "out")
    part.link("in", "out")
    flow = orders()
    flow.subflows = {"part": part}
    part.subflows = {"orders": flow}  # not that this could run
    flow.node("Subflow", "Part", queue="OTHER", flow="part")
    flow.link("Desk", "Part")
    lines = lines_of(flow)
    assert "      out → Part (subflow part)" in lines
    assert lines[-3:] == ["part", "in (Input)", "  out → out (Output)"]


def test_chain_longer_than_python_can_recurse_is_drawn() -> None:
    flow = FlowDefinition("long")
    flow.node("MQInput", "N0", queue="IN")
    for number in range(1, 2000):
        flow.node("Trace", f"N{number}")
        flow.link(f"N{number - 1}", f"N{number}")
    assert outline(flow)[-1].depth == 1999
    assert len(lay_out(flow).boxes) == 2000


def test_definition_as_json_says_everything() -> None:
    flow = orders()
    flow.user_properties = {"region": "EU"}
    flow.node("Python", "Call", function=print)
    told = as_json(flow)
    assert told["nodes"][0] == {"name": "In", "type": "MQInput", "properties": {"queue": "IN"}, "place": "flow"}
    assert told["nodes"][-1]["properties"] == {"function": "print"}
    assert told["links"][1] == {"from": "In", "terminal": "catch", "to": "Done", "input": "in"}
    assert told["properties"] == {"region": "EU"}


# --- the picture ----------------------------------------------------------------------------------------------


def test_picture_has_a_box_for_each_node_and_a_line_for_each_link() -> None:
    root = ElementTree.fromstring(svg(orders()))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    for said in (
        "orders",
        "In",
        "MQInput IN",
        "Large",
        "Filter",
        "Desk",
        "MQOutput DESK",
        "out",
        "catch",
        "true",
        "false",
    ):
        assert said in texts
    assert len([path for path in root.iter(f"{SVG}path") if path.get("marker-end")]) == 4
    assert len(list(root.iter(f"{SVG}g"))) == 4


def test_picture_needs_nothing_from_elsewhere() -> None:
    text = svg(orders())
    assert "href" not in text
    assert "@import" not in text
    assert "<script" not in text
    assert text.count("http") == 1  # the name of SVG itself


def test_names_cannot_break_the_picture() -> None:
    flow = FlowDefinition("<b>&\x00\x1b")
    flow.node("MQInput", '"><script>alert(1)</script>', queue="]]>\x07")
    root = ElementTree.fromstring(svg(flow))
    assert [element for element in root.iter() if element.tag.endswith("script")] == []


def test_empty_flow_is_an_empty_picture() -> None:
    assert ElementTree.fromstring(svg(FlowDefinition("nothing"))).tag == f"{SVG}svg"


def test_messages_go_from_left_to_right() -> None:
    boxes = {box.name: box for box in lay_out(orders()).boxes}
    assert boxes["In"].x < boxes["Large"].x < boxes["Desk"].x == boxes["Done"].x
    assert boxes["Desk"].y < boxes["Done"].y


@pytest.mark.parametrize(("seed", "nodes"), [(1, 6), (2, 15), (3, 45), (4, 45), (5, 120)])
def test_boxes_do_not_overlap_and_lines_run_through_none(seed: int, nodes: int) -> None:
    layout = lay_out(random_flow(seed, nodes))
    boxes = layout.boxes
    for index, one in enumerate(boxes):
        assert 0 <= one.x <= one.x + one.width <= layout.width
        assert 0 <= one.y <= one.y + one.height <= layout.height
        for other in boxes[index + 1 :]:
            apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
            apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
            assert apart_x or apart_y, (one, other)
    assert crossed_boxes(layout) == []


def crossed_boxes(layout: FlowLayout) -> list[tuple[str, str, str]]:
    """Boxes that a line runs through, tried at many points of each."""
    found = []
    for path in layout.paths:
        for (x, y), (next_x, next_y) in zip(path.points, path.points[1:], strict=False):
            for part in range(1, 40):
                share = part / 40
                # A curve between two layers stays between its ends, and rises or falls all the way.
                at_x, at_y = x + (next_x - x) * share, y + (next_y - y) * share
                found += [
                    (path.link.source, path.link.target, box.name)
                    for box in layout.boxes
                    if box.x + 0.5 < at_x < box.x + box.width - 0.5 and box.y + 0.5 < at_y < box.y + box.height - 0.5
                ]
    return found


def test_links_that_lead_back_run_below_all_boxes() -> None:
    flow = orders()
    flow.link("Desk", "Large")
    layout = lay_out(flow)
    (back,) = (path for path in layout.paths if path.goes_back)
    lowest = max(box.y + box.height for box in layout.boxes)
    assert max(y for _, y in back.points) > lowest
    assert layout.height > max(y for _, y in back.points)
