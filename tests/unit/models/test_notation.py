# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from entrepot.errors import ModelInvalid
from entrepot.models.logical import (
    Composition,
    CwfField,
    CwfFormat,
    MessageSet,
    Separation,
    Simple,
    Structure,
    StructureMember,
    TdsField,
    TdsFormat,
    TdsStructure,
    ValueType,
    XmlField,
    XmlFormat,
)
from entrepot.models.notation import load_notation, read_notation
from folding import for_each

FORMATS = 'formats:\n  CWF1: cwf\n  TDS1: {kind: tds, delimiter: "|"}\n  XML1: xml\n'


def read(messages: str, types: str = "", formats: str = FORMATS) -> MessageSet:
    return read_notation(f"set: s\n{formats}{types}messages:\n{messages}", "m.yaml")


def member(line: str, types: str = "", formats: str = FORMATS) -> StructureMember:
    """The one element of a message."""
    indented = "\n".join(f"    {each}" for each in line.splitlines())
    return read(f"  M:\n{indented}\n", types, formats).messages["M"].structure.members[0]


# --- known answers ------------------------------------------------------------------------------------------


def test_an_element_with_all_that_follows_from_its_type() -> None:
    assert member("- sku: string(12)") == StructureMember(
        "sku",
        Simple(ValueType.STRING, length_max=12),
        physical={
            "CWF1": CwfField("string", 12),
            "TDS1": TdsField(length=12),
            "XML1": XmlField(),
        },
        line=8,
    )


@for_each(
    ("written", "cwf", "tds"),
    [
        ("string", CwfField("string", 0), TdsField()),
        ("integer", CwfField("integer", 4), TdsField(justify="right", padding="0")),
        ("integer(4)", CwfField("integer", 2), TdsField(length=4, justify="right", padding="0")),
        ("integer(9)", CwfField("integer", 4), TdsField(length=9, justify="right", padding="0")),
        ("integer(18)", CwfField("integer", 8), TdsField(length=18, justify="right", padding="0")),
        ("decimal", CwfField("packed", 10), TdsField(justify="right", padding="0")),
        ("decimal(9,2)", CwfField("packed", 5, decimals=2), TdsField(length=10, justify="right", padding="0")),
        ("decimal(8)", CwfField("packed", 5), TdsField(length=8, justify="right", padding="0")),
        ("float", CwfField("float", 8), TdsField(justify="right", padding="0")),
        ("boolean", CwfField("boolean", 4), TdsField()),
        ("binary(8)", CwfField("binary", 8, padding="0x00"), TdsField(length=8)),
        ("date", CwfField("string", 10), TdsField(length=10)),
        ("time", CwfField("string", 8), TdsField(length=8)),
        ("datetime", CwfField("string", 19), TdsField(length=19)),
    ],
)
def test_what_follows_from_each_type(written: str, cwf: CwfField, tds: TdsField) -> None:
    found = member(f"- x: {written}").physical
    assert (found["CWF1"], found["TDS1"]) == (cwf, tds)


@for_each(
    ("written", "cwf"),
    [
        ("integer(5)\n  cwf: {storage: packed}", CwfField("packed", 3)),
        ("integer\n  cwf: {storage: packed, length: 3}", CwfField("packed", 3)),
        ("decimal(7,2)\n  cwf: {storage: external, sign: leading separate}",
         CwfField("external", 7, decimals=2, sign="leading separate", justify="right", padding="0")),
        ("date\n  format: yyyyDDD\n  cwf: {storage: packed}", CwfField("packed", 4, format="yyyyDDD")),
        ("date\n  cwf: {format: yyyyMMdd}", CwfField("string", 8, format="yyyyMMdd")),
        ("string\n  cwf: {length_from: n, length_unit: characters, padding: <SP>}",
         CwfField("string", length_unit="characters", length_from="n")),
        ("decimal(3)\n  cwf: {decimals: -2, signed: no, alignment: 4, skip_before: 1, skip_after: 2}",
         CwfField("packed", 2, decimals=-2, signed=False, alignment=4, skip_before=1, skip_after=2)),
        ("string(3)\n  cwf: {null_policy: fill, null_value: 0xFF, justify: right, count_from: c}",
         CwfField("string", 3, null_policy="fill", null_value="0xFF", justify="right", count_from="c")),
    ],
)  # fmt: skip
def test_cwf_properties(written: str, cwf: CwfField) -> None:
    assert member(f"- x: {written}").physical["CWF1"] == cwf


def test_tds_properties_of_an_element() -> None:
    written = (
        '- x[0..*]: string\n  tag: "20C"\n  tds: {pattern: "[A-Z]+", repeat_delimiter: "<CR><LF>", '
        "null_policy: literal, null_value: NONE, length_from: n, count_from: c}"
    )
    assert member(written).physical["TDS1"] == TdsField(
        tag="20C", pattern="[A-Z]+", repeat_delimiter="\r\n", null_policy="literal", null_value="NONE",
        length_from="n", count_from="c",
    )  # fmt: skip


def test_formats_with_all_their_properties() -> None:
    found = read(
        "  M: [a: string]\n",
        formats=(
            "formats:\n"
            "  C: {kind: cwf, alignment: 4, padding: <NUL>, boolean_true: 0x01, boolean_false: '00'}\n"
            "  T: {kind: tds, delimiter: '<HT>', group_indicator: '{', group_terminator: '}', tag_separator: ':',\n"
            "      tag_length: 3, decimal_point: ',', escape: '\\', quote: \"'\", reserved: ':{', boolean_true: J,\n"
            "      boolean_false: N, ccsid: 37, trim: both, strict_numbers: true, separation: tagged delimited}\n"
            "  X: {kind: xml, root: envelope, declaration: false, namespaces: {s: 'http://s'}, encode_null: nil}\n"
        ),
    )
    assert found.formats == {
        "C": CwfFormat(4, "\x00", b"\x01", b"\x00"),
        "T": TdsFormat("\t", "{", "}", ":", 3, ",", "\\", "'", ":{", "J", "N", 37, "both", True),
        "X": XmlFormat("envelope", False, {"s": "http://s"}, "nil"),
    }
    assert found.messages["M"].structure.physical == {"T": TdsStructure(Separation.TAGGED_DELIMITED)}


def test_without_formats_there_is_xml() -> None:
    found = read_notation("messages:\n  M:\n    - a: string\n", "folder/shop.yaml")
    assert (found.name, found.formats) == ("shop", {"XML1": XmlFormat()})


@for_each(
    ("name", "occurs"),
    [("x", (1, 1)), ("x?", (0, 1)), ("x*", (0, None)), ("x+", (1, None)), ("x[3]", (3, 3)), ("x[0..1]", (0, 1)),
     ("x[2..5]", (2, 5)), ("x[1..*]", (1, None)), ("x[*]", (0, None))],
)  # fmt: skip
def test_occurrences(name: str, occurs: tuple[int, int | None]) -> None:
    found = member(f"- {name}: string")
    assert (found.name, found.min_occurs, found.max_occurs) == ("x", *occurs)


def test_facets_of_values() -> None:
    found = member("- side: string(4)\n  values: [BUYI, SELL]\n  default: SELL\n  pattern: '[A-Z]{4}'")
    assert found.content == Simple(ValueType.STRING, length_max=4, values=("BUYI", "SELL"), pattern="[A-Z]{4}")
    assert found.default == "SELL"


def test_fixed_is_the_only_value_and_the_default() -> None:
    found = member("- code: string\n  fixed: GENL")
    assert (found.content, found.default) == (Simple(ValueType.STRING, values=("GENL",)), "GENL")


def test_words_that_yaml_would_take_for_something_else_stay_words() -> None:
    found = member("- no: string\n  values: [yes, 012, null, 1e3]")
    assert isinstance(found.content, Simple)
    assert (found.name, found.content.values) == ("no", ("yes", "012", "null", "1e3"))


def test_named_types_are_shared_and_their_properties_passed_on() -> None:
    types = (
        "types:\n  Line:\n    - sku: Code\n    - n: integer\n"
        "  Code: {type: string(4), pattern: '[A-Z]+', tds: {length: 9}, tag: T}\n"
    )
    found = read("  A:\n    - line*: Line\n  B:\n    - line: Line\n    - code: Code\n      tds: {length: 7}\n", types)
    first = found.messages["A"].structure.members[0].content
    assert first is found.messages["B"].structure.members[0].content
    assert isinstance(first, Structure)
    assert (first.name, first.members[0].physical["TDS1"]) == ("Line", TdsField("T", 9))
    assert found.messages["B"].structure.members[1].physical["TDS1"] == TdsField("T", 7)


def test_structures_on_the_spot_choices_and_groups() -> None:
    found = read(
        "  M:\n"
        "    identifier: '543'\n"
        "    elements:\n"
        "      - address:\n"
        "          - city: string\n"
        "      - party:\n"
        "          choice:\n"
        "            - bic: string(11)\n"
        "            - name: string(35)\n"
        "        tds: {separation: tagged delimited, tag: P}\n"
        "      - choice?:\n"
        "          - cash: decimal\n"
        "          - card: string\n"
        "      - unordered:\n"
        "          - a: string\n"
        "    tds: {separation: all elements delimited, group_terminator: '<CR>'}\n"
    ).messages["M"]
    address, party, payment, rest = found.structure.members
    delimited = TdsStructure(Separation.ALL_DELIMITED, group_terminator="\r")
    assert (found.identifier, found.structure.physical["TDS1"]) == ("543", delimited)
    assert isinstance(address.content, Structure)
    assert (address.content.name, address.content.physical["TDS1"]) == ("address", TdsStructure())
    assert isinstance(party.content, Structure)
    assert (party.content.composition, party.physical["TDS1"]) == (Composition.CHOICE, TdsField("P"))
    assert party.content.physical["TDS1"] == TdsStructure(Separation.TAGGED_DELIMITED)
    assert isinstance(payment.content, Structure)
    assert (payment.name, payment.min_occurs, payment.content.composition) == ("", 0, Composition.CHOICE)
    # The group separates as the message does, without its terminator.
    assert payment.content.physical["TDS1"] == TdsStructure(
        Separation.ALL_DELIMITED, group_indicator="", group_terminator=""
    )
    assert isinstance(rest.content, Structure)
    assert (rest.name, rest.content.composition) == ("", Composition.UNORDERED)


def test_a_value_may_be_called_choice_and_a_type_may_be_a_group() -> None:
    found = read("  M:\n    - choice: string\n    - _[2]: Leg\n", "types:\n  Leg: [a: string]\n")
    first, second = found.messages["M"].structure.members
    assert first.name == "choice"
    assert (second.name, second.min_occurs) == ("", 2)


def test_names_take_the_namespace_of_the_set_unless_they_say_otherwise() -> None:
    found = read_notation(
        "namespace: http://s\nmessages:\n  M:\n    - a: string\n    - b: string\n      attribute: true\n"
        "    - '{}c': string\n    - '{http://t}d': string\n"
    )
    assert [each.name for each in found.messages["M"].structure.members] == ["{http://s}a", "b", "c", "{http://t}d"]


def test_properties_of_one_format_win_over_those_of_its_kind() -> None:
    formats = "formats:\n  T1: tds\n  T2: tds\n"
    found = member("- a: string\n  tds: {length: 3, tag: X}\n  T2: {length: 4}", formats=formats).physical
    assert found == {"T1": TdsField("X", 3), "T2": TdsField("X", 4)}


def test_the_examples_of_the_page_are_models() -> None:
    page = Path(__file__).parents[3] / "docs" / "MODELS.md"
    blocks = re.findall(r"```yaml\n(set: .*?)```", page.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        assert read_notation(block).messages


def test_a_file_is_loaded_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text("messages:\n  M: [a: string]\n")
    assert (load_notation(path).name, load_notation(path).file) == ("shop", str(path))


# --- mistakes ------------------------------------------------------------------------------------------------


@for_each(
    ("text", "place", "complaint"),
    [
        ("", (1, 1), "empty"),
        ("- a", (1, 1), "not a list"),
        ("messages: {\n", (2, 1), "no YAML"),
        ("a: b: c", (1, 5), "no YAML"),
        ("messages:\n  M: [a: string]\n---\nx: 1\n", (3, 1), "second document"),
        ("messages:\n  M: &x [a: string]\n", (2, 6), "anchors and aliases"),
        ("messages:\n  M: !!python/object:os.system [a: string]\n", (2, 6), "tags"),
        ("messages:\n  M: [a: string]\nmessages: 1\n", (3, 1), "twice"),
        ("mesages: 1", (1, 1), "did you mean messages?"),
        ("set: x", (1, 1), "needs `messages:`"),
        ("messages: []", (1, 11), "messages is a mapping"),
        ("messages:\n  M: string\n", (2, 6), "must be a structure"),
        ("messages:\n  M:\n", (2, 5), "needs a type or a list"),
        ("messages:\n  M: [a]\n", (2, 7), "`name: type`"),
        ("messages:\n  M: [a: strng]\n", (2, 10), "did you mean string?"),
        ("messages:\n  M: [a: 'string(x)']\n", (2, 10), "is no type"),
        ("messages:\n  M: [a: string(0)]\n", (2, 10), "impossible"),
        ("messages:\n  M: [a: float(3)]\n", (2, 10), "takes no size"),
        ("messages:\n  M: [a: 'string(3,1)']\n", (2, 10), "only decimal"),
        ("messages:\n  M: [a: 'decimal(3,4)']\n", (2, 10), "impossible"),
        ("messages:\n  M:\n    - a[3..2]: string\n", (3, 7), "allows nothing"),
        ("messages:\n  M:\n    - a[0]: string\n", (3, 7), "allows nothing"),
        ("messages:\n  M:\n    - a[x]: string\n", (3, 7), "no number of occurrences"),
        ("messages:\n  M:\n    - a b: string\n", (3, 7), "no name of an element"),
        ("messages:\n  M:\n    - a: string\n      patern: x\n", (4, 7), "did you mean pattern?"),
        ("messages:\n  M:\n    - a: string\n      pattern: '['\n", (4, 16), "no regular expression"),
        ("messages:\n  M:\n    - a: date\n      format: yyyy-QQ\n", (4, 15), "no pattern of dates"),
        ("messages:\n  M:\n    - a: integer\n      default: x\n", (4, 16), "not a whole number"),
        ("messages:\n  M:\n    - a: string(2)\n      fixed: abc\n", (4, 14), "longer than 2"),
        ("messages:\n  M:\n    - a: string\n      values: x\n", (4, 15), "values is a list"),
        ("messages:\n  M:\n    - a: string\n      values: [x]\n      default: y\n", (5, 16), "none of the values"),
        ("messages:\n  M:\n    - a: [b: string]\n      default: y\n", (4, 7), "this is a structure"),
        ("messages:\n  M:\n    - a: string\n      tds: {tag: x}\n", (4, 7), "no format of kind tds"),
        ("messages:\n  M:\n    - a: string\n      xml: {nam: x}\n", (4, 13), "did you mean name?"),
        ("messages:\n  M:\n    - a: string\n      xml: [x]\n", (4, 12), "not a list"),
        ("messages:\n  M:\n    - a: string\n      xml: {attribute: maybe}\n", (4, 24), "true or false"),
        ("messages:\n  M:\n    - choice: []\n", (3, 15), "something to choose"),
        ("messages:\n  M:\n    - _: string\n", (3, 10), "only a structure"),
        ("messages:\n  M:\n    - a: {elements: [], choice: []}\n", (3, 25), "one too many"),
        ("types:\n  string: [a: integer]\nmessages:\n  M: [a: string]\n", (2, 3), "is a type already"),
        ("types:\n  A: [b: B]\n  B: [a: A]\nmessages:\n  M: [a: A]\n", (2, 3), "A > B > A"),
        ("types:\n  A: A\nmessages:\n  M: [a: string]\n", (2, 3), "contains itself"),
        ("types:\n  A: [b: nope]\nmessages:\n  M: [a: string]\n", (2, 10), "no type 'nope'"),
        ("formats:\n  X: jason\nmessages:\n  M: [a: string]\n", (2, 6), "no kind of format"),
        ("formats:\n  X: {root: a}\nmessages:\n  M: [a: string]\n", (2, 6), "needs a kind"),
        ("formats:\n  tds: tds\nmessages:\n  M: [a: string]\n", (2, 3), "already"),
        ("formats:\n  X: {kind: cwf, alignment: 3}\nmessages:\n  M: [a: string]\n", (2, 29), "cannot be '3'"),
        ("formats:\n  X: {kind: cwf, boolean_true: x}\nmessages:\n  M: [a: string]\n", (2, 32), "hexadecimal"),
        ("formats:\n  X: {kind: tds, separation: tagged}\nmessages:\n  M: [a: string]\n", (2, 30), "separation cannot"),
        ("formats:\n  X: tds\nmessages:\n  M:\n    - a: string\n      tds: {length: -1}\n", (6, 21), "at least 0"),
        ("formats:\n  X: tds\nmessages:\n  M:\n    - a: string\n      tds: {delimiter: x}\n", (6, 7), "for structures"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(text: str, place: tuple[int, int], complaint: str) -> None:
    with pytest.raises(ModelInvalid) as caught:
        read_notation(text, "m.yaml")
    assert complaint in caught.value.problem
    assert (caught.value.file, caught.value.line, caught.value.column) == ("m.yaml", *place)


def test_types_that_double_on_every_level_are_refused() -> None:
    types = "".join(f"  T{n}: [a: T{n - 1}, b: T{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(ModelInvalid, match="more than 200000"):
        read_notation(f"types:\n  T0: [x: string]\n{types}messages:\n  M: [a: T39]\n")


@pytest.mark.parametrize(
    "text",
    [
        "messages:\n  M: " + "[a: " * 200 + "string" + "]" * 200,
        "messages:\n  M: " + "[" * 100_000,
        "messages:\n  M: " + "{a: " * 5000,
        "types:\n"
        + "".join(f"  T{n}: [a: T{n + 1}]\n" for n in range(300))
        + "  T300: [a: string]\nmessages:\n  M: T0\n",
    ],
)
def test_depth_is_limited(text: str) -> None:
    with pytest.raises(ModelInvalid):
        read_notation(text)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(b"set: a\n\xff")
    with pytest.raises(ModelInvalid, match="not UTF-8") as caught:
        load_notation(path)
    assert caught.value.line == 2
    with pytest.raises(ModelInvalid, match="no YAML"):
        read_notation("set: \x00")
