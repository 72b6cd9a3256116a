# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Complaint, Shell

MODEL = """\
set: orders
formats:
  CWF1: cwf
  TDS1: {kind: tds, delimiter: "|", separation: all elements delimited}
  XML1: xml
messages:
  Order:
    elements:
      - id: string(4)
      - n: integer(3)
"""
XML = b'<?xml version="1.0"?><Order><id>AB</id><n>7</n></Order>'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(MODEL)
    return path


@pytest.fixture
def order(tmp_path: Path) -> Path:
    path = tmp_path / "order.xml"
    path.write_bytes(XML)
    return path


def test_show_draws_names_types_and_properties(shell: Shell, model: Path) -> None:
    said = shell("model", "show", model).stdout
    assert "orders" in said
    assert "id  string(4)  CWF1 (storage string, length 4)  TDS1 (length 4)" in said
    assert "CWF1" not in shell("model", "show", model, "--format", "XML1").stdout


def test_show_answers_in_json(shell: Shell, model: Path) -> None:
    said = shell.json("model", "show", model, "--message", "Order")
    assert said["formats"]["TDS1"] == {"kind": "TDS", "delimiter": "|"}
    assert said["messages"]["Order"]["elements"][0] == {
        "name": "id",
        "min": 1,
        "max": 1,
        "type": "string",
        "length_max": 4,
        "physical": {"CWF1": {"length": 4}, "TDS1": {"length": 4}, "XML1": {}},
    }


def test_parse_prints_the_tree_with_its_types(shell: Shell, model: Path, order: Path) -> None:
    said = shell("model", "parse", model, order, "--format", "XML1").stdout.splitlines()
    assert said == [
        "(0x01000000:Name):MRM = (",
        "  (0x03000000:NameValue):id = 'AB' (CHARACTER)",
        "  (0x03000000:NameValue):n = 7 (INTEGER)",
        ")",
    ]


def test_parse_and_render_are_each_others_inverse(shell: Shell, model: Path, order: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree.json"
    tree.write_text(shell("model", "parse", model, order, "-f", "XML1", "--json").stdout)
    assert shell("model", "render", model, tree, "-m", "Order", "-f", "XML1").stdout_bytes == XML
    out = tmp_path / "out"
    shell("model", "render", model, tree, "-f", "XML1", "-o", out)
    assert out.read_bytes() == XML


def test_convert_goes_from_one_format_to_another(shell: Shell, model: Path, order: Path) -> None:
    found = shell("model", "convert", model, order, "--from", "XML1", "--to", "TDS1").stdout_bytes
    assert found == b"AB|7"
    fixed = shell("model", "convert", model, order, "--from", "XML1", "--to", "CWF1", "--to-encoding", 273).stdout_bytes
    assert fixed == b"AB  \x00\x07"
    ebcdic = shell("model", "convert", model, order, "--from", "XML1", "--to", "TDS1", "--to-ccsid", 500).stdout_bytes
    assert ebcdic == "AB|7".encode("cp500")


def test_a_message_can_come_from_standard_input(shell: Shell, model: Path) -> None:
    said = shell("model", "parse", model, "-", "-f", "XML1", stdin=XML).stdout
    assert "'AB'" in said


def test_write_turns_any_model_into_the_notation(shell: Shell, model: Path, tmp_path: Path) -> None:
    definition = tmp_path / "o.xsd"
    definition.write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="O"><xs:complexType><xs:sequence>'
        '<xs:element name="a" type="xs:int"/></xs:sequence></xs:complexType></xs:element></xs:schema>'
    )
    assert shell("model", "write", definition).stdout == (
        "set: o\nformats:\n  XML1: xml\nmessages:\n  O:\n    elements:\n      - a: integer\n"
    )
    assert "Order" in shell.json("model", "write", model)["notation"]


def test_control_characters_in_values_cannot_reach_the_terminal(shell: Shell, model: Path, tmp_path: Path) -> None:
    message = tmp_path / "m"
    message.write_bytes(b"a\x1b[2|1")
    said = shell("model", "parse", model, message, "-f", "TDS1").stdout
    assert "\x1b" not in said
    assert "\\x1b" in said


def test_mistakes_are_told(complaint: Complaint, model: Path, order: Path, tmp_path: Path) -> None:
    assert "several" in complaint("model", "parse", model, order)
    assert "no format in set orders, 'NONE'" in complaint("model", "parse", model, order, "-f", "NONE")
    assert "no message in set orders, 'NONE'" in complaint("model", "show", model, "-m", "NONE")
    assert "No such file" in complaint("model", "show", tmp_path / "none.yaml")
    assert "model file" in complaint("model", "show", order)
    assert "MRM" in complaint("model", "parse", model, model, "-f", "XML1")
    assert "JSON-FILE" in complaint("model", "render", model, order, "-f", "XML1")
    (tmp_path / "bad.yaml").write_text("messages:\n  M: [a: strng]\n")
    assert "bad.yaml:2:10" in complaint("model", "show", tmp_path / "bad.yaml").replace("\n", "")
