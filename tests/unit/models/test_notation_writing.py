# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import InvalidArgument
from entrepot.models.logical import (
    Composition,
    CwfField,
    CwfFormat,
    MessageModel,
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
from entrepot.models.notation import read_notation, write_notation

TEXT = """\
set: orders
formats:
  CWF1: cwf
  TDS1: {kind: tds, delimiter: "|", group_terminator: "<CR><LF>", separation: all elements delimited}
types:
  Line:
    elements:
      - sku: string(12)
      - quantity: integer
        cwf: {storage: packed, length: 3}
messages:
  Order:
    identifier: "5:43"
    elements:
      - id: string(10)
      - side: string(4)
        values: [BUYI, SELL]
      - choice?:
          - cash: decimal
          - card: string(16)
            pattern: "[0-9]{16}"
      - address:
          - street: string(20)
        tds: {tag: ADR, delimiter: "<SP>"}
      - line[1..*]: Line
        tds: {repeat_delimiter: "~"}
"""


def test_a_model_is_written_as_a_person_would() -> None:
    assert write_notation(read_notation(TEXT)) == TEXT


def without_lines(content: Any) -> Any:
    if isinstance(content, Structure):
        members = tuple(replace(each, content=without_lines(each.content), line=0) for each in content.members)
        return replace(content, members=members)
    return content


def stripped(message_set: MessageSet) -> MessageSet:
    messages = {
        name: replace(each, structure=without_lines(each.structure)) for name, each in message_set.messages.items()
    }
    return replace(message_set, messages=messages, file="")


FORMATS = {
    "CWF1": CwfFormat(padding="0"),
    "TDS1": TdsFormat(delimiter="\t", reserved="<CR>"),
    "TDS2": TdsFormat(),
    "XML1": XmlFormat(namespaces={"s": "http://s"}),
}
NAMES = st.sampled_from(["a", "b-1", "choice", "no", "20", "{http://s}c", "{http://t}d", "{http://s}sequence", "null"])
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
CWF = st.builds(
    CwfField,
    storage=st.sampled_from(["string", "packed", "external", "integer", "float", "binary"]),
    length=st.integers(0, 20), length_unit=st.sampled_from(["bytes", "characters"]), signed=st.booleans(),
    decimals=st.integers(-3, 3), sign=st.sampled_from(["trailing", "leading separate"]),
    padding=st.sampled_from([" ", "0", "0x00", "<", "<SP>"]), null_value=WORDS, alignment=st.sampled_from([0, 4]),
)  # fmt: skip
TDS = st.builds(
    TdsField, tag=WORDS, length=st.integers(0, 9), repeat_delimiter=WORDS, justify=st.sampled_from(["left", "right"]),
    pattern=st.sampled_from(["", "[A-Z]+: #", "a{2,3}"]), decimals=st.integers(-2, 2),
)  # fmt: skip
STRUCTURE = st.builds(
    TdsStructure, separation=st.sampled_from(list(Separation)), delimiter=st.none() | WORDS,
    group_indicator=st.none() | WORDS, group_terminator=st.none() | WORDS, tag_length=st.none() | st.integers(0, 3),
    suppress_absent=st.sampled_from(["never", "end"]), observe_length=st.booleans(),
)  # fmt: skip
PHYSICAL = st.fixed_dictionaries({"CWF1": CWF, "TDS1": TDS, "TDS2": TDS, "XML1": st.builds(XmlField, name=WORDS)})
SIMPLE = st.builds(
    Simple,
    type=st.sampled_from([ValueType.STRING, ValueType.BINARY, ValueType.DATE, ValueType.INTEGER]),
    length_max=st.none() | st.integers(1, 99),
    pattern=st.sampled_from(["", "[0-9]{2}", "\\d"]),
)
OCCURS = st.sampled_from([(1, 1), (0, 1), (0, None), (1, None), (3, 3), (2, 7)])


@st.composite
def members(draw: st.DrawFn, content: st.SearchStrategy[Simple | Structure], nameless: bool = False) -> StructureMember:
    what = draw(content)
    name = "" if nameless and isinstance(what, Structure) and draw(st.booleans()) else draw(NAMES)
    least, most = draw(OCCURS)
    default = draw(st.none() | st.just("12")) if isinstance(what, Simple) and what.length_max != 1 else None
    return StructureMember(name, what, least, most, default, draw(PHYSICAL))


def structures(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Structure]:
    return st.builds(
        Structure,
        name=st.sampled_from(["", "a", "T", "date", "choice"]),
        members=st.lists(members(below, nameless=True), min_size=1, max_size=3).map(tuple),
        composition=st.sampled_from(list(Composition)),
        physical=st.fixed_dictionaries({"TDS1": STRUCTURE, "TDS2": STRUCTURE}),
    )


MODELS = structures(st.recursive(SIMPLE, structures, max_leaves=5))


@settings(max_examples=50)
@given(st.sampled_from(["", "http://s"]), st.lists(MODELS, min_size=1, max_size=2))
def test_every_model_reads_back_as_itself(namespace: str, models: list[Structure]) -> None:
    messages = {f"M{n}": MessageModel(f"M{n}", each, "") for n, each in enumerate(models)}
    written = stripped(MessageSet("s", messages, FORMATS, "", namespace))
    assert stripped(read_notation(write_notation(written))) == written


@pytest.mark.parametrize("name", ["a b", "a[1]", "_", "a?"])
def test_names_that_the_notation_has_no_place_for_are_refused(name: str) -> None:
    structure = Structure("M", (StructureMember(name, Simple(ValueType.STRING)),))
    with pytest.raises(InvalidArgument):
        write_notation(MessageSet("s", {"M": MessageModel("M", structure)}, {"XML1": XmlFormat()}))
