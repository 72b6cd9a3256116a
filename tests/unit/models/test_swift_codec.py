# SPDX-License-Identifier: Apache-2.0
"""SWIFT messages between bytes and tree, by the set's own codec and by the TDS engine."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import MessageUnreadable, MessageUnwritable
from entrepot.models.logical import MessageFormat, Structure
from entrepot.models.message_sets import find_format, find_set
from entrepot.models.mrm import MRM
from entrepot.models.notation import read_notation, write_notation
from entrepot.models.swift import MESSAGES, load_swift, validate
from entrepot.models.swift.codec import SwiftCodec
from entrepot.models.tds import compile_tds
from entrepot.models.tree import Element, Folder
from folding import for_each
from golden.models.swift_messages import framed, mt103, mt543, mt940, random_message

UTF8, NATIVE = 1208, 546
MINIMAL = ["20:REF1", "23B:CRED", "32A:240105EUR1,", "50K:ANNA", "59:JEAN", "71A:SHA"]


def read(body: bytes, message: str, ccsid: int = UTF8) -> Folder:
    """A message as flows have it: a folder whose bytes are read when somebody looks."""
    return Folder(MRM, body, ccsid=ccsid, model=find_format("SWIFT", message, "TDS1"))


def at(folder: Element, path: str) -> Element:
    element: Element | None = folder
    for step in path.split("."):
        name, _, number = step.partition("[")
        assert element is not None
        found = element.all(name)
        element = found[int(number.rstrip("]")) - 1] if number else element.first(name)
    assert element is not None, path
    return element


def shape(elements: list[Element], *, parts: bool = False) -> list[Any]:
    """Names, texts and structure; fields without their parts unless those are wanted."""
    return [
        (each.key, each.value, [] if each.value is not None and not parts else shape(each.children, parts=parts))
        for each in elements
    ]


def written(folder: Folder) -> bytes:
    """What the tree says, not the bytes it came from."""
    folder.dirty = True
    return folder.render()


# --- reading -----------------------------------------------------------------------------------------


@for_each(
    ("path", "value"),
    [
        ("Block1.ApplicationId", "F"),
        ("Block1.ServiceId", "01"),
        ("Block1.LogicalTerminal", "BANKBEBBAXXX"),
        ("Block1.SessionNumber", "2222"),
        ("Block1.SequenceNumber", "123456"),
        ("Block2.Direction", "I"),
        ("Block2.MessageType", "543"),
        ("Block2.ReceiverAddress", "BANKDEFFXXXX"),
        ("Block2.Priority", "N"),
        ("Block3.F108", "MUR0000000000001"),
        ("Block4.GENL.F20C", ":SEME//DAP2024010300001"),
        ("Block4.GENL.F20C.Qualifier", "SEME"),
        ("Block4.GENL.F20C.Reference", "DAP2024010300001"),
        ("Block4.GENL.F23G.Function", "NEWM"),
        ("Block4.GENL.F99B[2].Number", "002"),
        ("Block4.GENL.LINK[2].F20C.Reference", "REF00000001"),
        ("Block4.TRADDET.F35B.ISIN", "DE0005140008"),
        ("Block4.TRADDET.F35B.Description[2]", "NAMENS-AKTIEN O.N."),
        ("Block4.TRADDET.FIA.F12C.CfiCode", "ESVUFR"),
        ("Block4.FIAC.BREAK[1].F90B.Price", "41,02"),
        ("Block4.REPO.F92A.Rate", "3,95"),
        ("Block4.SETDET.SETPRTY[3].F95P.IdentifierCode", "CEDELULL"),
        ("Block4.SETDET.CSHPRTY[2].F95Q.NameAndAddress[3]", "LUXEMBOURG"),
        ("Block4.SETDET.AMT[1].F19A.Currency", "EUR"),
        ("Block4.SETDET.AMT[1].F19A.Amount", "567125,25"),
        ("Block4.SETDET.NTWKFEE.F36D.Quantity", "0,000123"),
        ("Block4.OTHRPRTY[2].F95L.LegalEntity", "529900T8BM49AURSDO55"),
        ("Block5.CHK", "123456789ABC"),
    ],
)
def test_programs_find_what_they_look_for(path: str, value: str) -> None:
    assert at(read(mt543(), "MT543"), path).value == value


def test_the_output_form_of_block_2_is_read_and_written() -> None:
    body = mt103().replace(b"{2:I103BANKDEFFXXXXN}", b"{2:O1031015240103BANKDEFFAXXX22221234562401031016N}")
    folder = read(body, "MT103")
    assert [(part.key, part.value) for part in at(folder, "Block2").children] == [
        ("Direction", "O"),
        ("MessageType", "103"),
        ("InputTime", "1015"),
        ("InputReference", "240103BANKDEFFAXXX2222123456"),
        ("OutputDate", "240103"),
        ("OutputTime", "1016"),
        ("Priority", "N"),
    ]
    assert written(folder) == body


def test_blocks_3_5_and_s_may_be_there_or_not() -> None:
    text = "".join(f"\r\n:{line}" for line in MINIMAL)
    head = "{1:F01BANKBEBBAXXX2222123456}{2:I103BANKDEFFXXXXU3003}"
    for third in ("", "{3:}", "{3:{103:ABC}{108:X}{119:STP}{121:eb6305c9-1f7f-49de-aed0-16487c27b42d}}"):
        for last in ("", "{5:}", "{5:{MAC:0}{TNG:}}", "{5:{CHK:123456789ABC}}{S:{COP:P}{SAC:}}"):
            body = f"{head}{third}{{4:{text}\r\n-}}{last}".encode()
            folder = read(body, "MT103")
            assert at(folder, "Block2.ObsolescencePeriod").value == "003"
            assert written(folder) == body
            assert validate(body) == ()


@pytest.mark.parametrize(
    ("message", "body"), [("MT543", mt543()), ("MT543", mt543(6449)), ("MT103", mt103()), ("MT940", mt940())]
)
def test_writing_gives_back_what_was_read(message: str, body: bytes) -> None:
    assert written(read(body, message)) == body


def test_a_message_in_ebcdic_is_read_and_written() -> None:
    body = mt103().decode().encode("cp500")
    folder = read(body, "MT103", ccsid=500)
    assert at(folder, "Block4.F20").value == "PAY2024010300001"
    assert written(folder) == body


def test_statement_lines_have_their_own_narrative() -> None:
    lines = at(read(mt940(), "MT940"), "Block4").all("StatementLine")
    assert [len(line.all("F86")) for line in lines] == [1, 0, 1]
    assert at(read(mt940(), "MT940"), "Block4.F86").value == "END OF STATEMENT"


def test_a_field_that_does_not_have_its_shape_is_read_without_parts() -> None:
    body = framed("103", ["20:REF1", "23B:CRED", "32A:rubbish", *MINIMAL[3:]])
    folder = read(body, "MT103")
    assert at(folder, "Block4.F32A").value == "rubbish"
    assert at(folder, "Block4.F32A").children == []
    assert written(folder) == body


def test_two_messages_in_one_body_are_not_read_as_one() -> None:
    with pytest.raises(MessageUnreadable, match=r"a block should begin here with \{S:, found '\{1:F01BANKBE'"):
        _ = read(mt103() + mt103(), "MT103").children


def test_missing_fields_do_not_hinder_reading() -> None:
    body = framed("103", ["23B:CRED"])
    assert written(read(body, "MT103")) == body
    assert len(validate(body)) == 5


@for_each(
    ("body", "path", "where", "problem"),
    [
        (
            framed("103", ["20:A", "99:B"]),
            "MRM.Block4",
            b":99:B",
            "line 3, position 1: field 99 does not belong here in the text of MT103; expected 13C or 23B",
        ),
        (
            framed("103", ["20:A", "20:B"]),
            "MRM.Block4",
            b":20:B",
            "line 3, position 1: field 20 is there twice in the text of MT103",
        ),
        (
            framed("103", ["23B:CRED", "20:B"]),
            "MRM.Block4",
            b":20:B",
            "line 3, position 1: field 20 comes too late in the text of MT103; expected 23E or 26T or 32A",
        ),
        (
            framed("543", ["16R:GENL", "16S:LINK"]),
            "MRM.Block4.GENL",
            b":16S:LINK",
            "line 3, position 1: 16S:LINK does not belong here in sequence A GENL; expected 20C",
        ),
        (
            framed("543", ["16R:GENL", "20C::SEME//A"]),
            "MRM.Block4.GENL",
            b"\r\n-}",
            "line 3, position 14: sequence A GENL has no end: 16S:GENL is missing",
        ),
        (
            framed("543", ["16R:REPO", "16S:REPO", "16R:GENL"]),
            "MRM.Block4",
            b":16R:GENL",
            "line 4, position 1: 16R:GENL comes too late in the text of MT543; expected 16R:SETDET",
        ),
        (
            framed("103", ["20"]),
            "MRM.Block4",
            b":20\r",
            "line 2, position 1: '20' does not belong here in the text of MT103; expected 20",
        ),
        (
            mt103()[:-1],
            "MRM",
            b"{5:",
            "line 33, position 3: a block should begin here with {5: or {S:, found '{5:{MAC:75D1'",
        ),
        (mt103() + b"!", "MRM", b"!", "line 33, position 39: a block should begin here with {S:, found '!'"),
        (
            mt103().replace(b"XXXXN}", b"XXXXN2X}"),
            "MRM.Block2",
            b"X}{3:",
            "line 1, position 51: nothing more belongs in this block, found 'X'",
        ),
        (
            mt103().replace(b"{108:", b"{1O8:"),
            "MRM.Block3",
            b"1O8:",
            "line 1, position 55: block 3 has no field 1O8; it has 103, 113, 108, 119, 423, 106, 424, 111, "
            "121, 115, 165, 433, 434",
        ),
    ],
)
def test_what_cannot_be_read_is_located(body: bytes, path: str, where: bytes, problem: str) -> None:
    message = "MT543" if b"{2:I543" in body else "MT103"
    with pytest.raises(MessageUnreadable) as caught:
        _ = read(body, message).children
    assert (caught.value.path, caught.value.problem) == (path, problem)
    assert caught.value.offset == body.index(where)


def test_a_message_of_another_type_is_not_read() -> None:
    with pytest.raises(MessageUnreadable, match="block 2 says MT103, but it is read as MT543"):
        _ = read(mt103(), "MT543").children


@given(st.integers(0, len(mt103())), st.binary(min_size=0, max_size=3))
@settings(max_examples=150)
def test_damaged_bytes_are_read_or_refused_but_nothing_else(place: int, junk: bytes) -> None:
    body = mt103()
    body = body[:place] + junk + body[place + 1 :]
    try:
        folder = read(body, "MT103")
        _ = folder.children
    except MessageUnreadable as error:
        assert 0 <= error.offset <= len(body)
    else:
        assert written(folder) == body


# --- writing ------------------------------------------------------------------------------------------


def test_changing_a_part_changes_its_field_alone() -> None:
    folder = read(mt543(), "MT543")
    at(folder, "Block4.SETDET.AMT[2].F19A.Amount").set_value("1,5")
    assert folder.render() == mt543().replace(b":19A::CHAR//EUR567126,25", b":19A::CHAR//EUR1,5")


def test_setting_the_text_of_a_field_throws_its_parts_away() -> None:
    folder = read(mt543(), "MT543")
    field = at(folder, "Block4.GENL.F20C")
    assert at(field, "Reference").value == "DAP2024010300001"
    field.set_value(":SEME//OTHER")
    assert at(field, "Reference").value == "OTHER"
    assert folder.render() == mt543().replace(b"DAP2024010300001", b"OTHER")


def build() -> Folder:
    folder = Folder(MRM, model=find_format("SWIFT", "MT103", "TDS1"))
    for block, parts in (
        (
            "Block1",
            "ApplicationId F ServiceId 01 LogicalTerminal BANKBEBBAXXX SessionNumber 0000 SequenceNumber 000000",
        ),
        ("Block2", "Direction I MessageType 103 ReceiverAddress BANKDEFFXXXX Priority N"),
    ):
        words = parts.split()
        element = folder.add(block)
        for name, value in zip(words[::2], words[1::2], strict=True):
            element.add(name, value)
    folder.add("Block4")
    return folder


def test_a_program_builds_a_message_from_parts_numbers_and_dates_in_any_order() -> None:
    folder = build()
    text = at(folder, "Block4")
    text.add("F71A", "SHA")
    amount = text.add("F32A")
    amount.add("Currency", "EUR")
    amount.add("Amount", Decimal("1250.50"))
    amount.add("Date", datetime.date(2024, 1, 5))
    name = text.add("F50K")
    for line in ("ANNA MUSTER", "BERLIN"):
        name.add("NameAndAddress", line)
    text.add("F59", "JEAN")
    text.add("F23B", "CRED")
    text.add("F20", "REF1")
    body = folder.render()
    assert body == (
        b"{1:F01BANKBEBBAXXX0000000000}{2:I103BANKDEFFXXXXN}{4:\r\n:20:REF1\r\n:23B:CRED\r\n:32A:240105EUR1250,50"
        b"\r\n:50K:ANNA MUSTER\r\nBERLIN\r\n:59:JEAN\r\n:71A:SHA\r\n-}"
    )
    assert validate(body) == ()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("F36", Decimal("1.0944"), "1,0944"),
        ("F36", 2, "2,"),
        ("F36", 0.5, "0,5"),
        ("F36", Decimal("1E+2"), "100,"),
        ("F20", "X", "X"),
        ("F26T", 7, "7"),
    ],
)
def test_values_are_written_as_swift_writes_them(name: str, value: Any, text: str) -> None:
    folder = build()
    at(folder, "Block4").add(name, value)
    assert f":{name[1:]}:{text}\r\n-}}".encode() in folder.render()


@for_each(
    ("name", "value", "problem"),
    [
        ("F99", "X", "MT103 has no such field"),
        ("F20", None, "it has neither a text nor parts"),
        ("F20", b"X", "Reference cannot be b'X'"),
        ("F36", Decimal(-1), "is not a number from 0 on"),
        ("F36", Decimal("NaN"), "is not a number from 0 on"),
        ("F32A", 5, "its text is int, not characters; set its parts instead"),
        ("F70", "A\r\n:71A:OUR", "a line of it begins with ':' or '-}', which ends it"),
        ("F70", "A\r\n-}", "a line of it begins with ':' or '-}', which ends it"),
    ],
)
def test_what_cannot_be_written_is_named(name: str, value: Any, problem: str) -> None:
    folder = build()
    at(folder, "Block4").add(name, value)
    with pytest.raises(MessageUnwritable) as caught:
        folder.render()
    assert caught.value.path == f"MRM.Block4.{name}"
    assert problem in caught.value.problem


def test_a_field_that_may_come_once_is_not_written_twice() -> None:
    folder = build()
    at(folder, "Block4").add("F20", "A")
    at(folder, "Block4").add("F20", "B")
    with pytest.raises(MessageUnwritable, match="at most once"):
        folder.render()


@pytest.mark.parametrize(
    ("block", "name", "value", "problem"),
    [
        ("Block1", "SessionNumber", "12", r"SessionNumber '12' does not match \[0-9\]\{4\}"),
        ("Block2", "Colour", "red", "this block has no part Colour"),
        ("Block2", "ObsolescencePeriod", "003", "has parts without those that go before them"),
        ("Block3", "F999", "X", "block 3 has no field F999"),
        ("Block3", "F108", "{", "characters without braces"),
        ("Block6", "X", "X", "is none of Block1"),
    ],
)
def test_blocks_that_cannot_be_written_are_named(block: str, name: str, value: str, problem: str) -> None:
    folder = build()
    at(folder, "Block4").add("F20", "A")
    target = folder.first(block) or folder.add(block)
    part = target.first(name) or target.add(name)
    part.set_value(value)
    with pytest.raises(MessageUnwritable, match=problem):
        if name == "ObsolescencePeriod":
            target.remove(at(target, "Priority"))
        folder.render()


def test_a_block_that_has_to_be_there_is_missed() -> None:
    folder = build()
    folder.remove(at(folder, "Block4"))
    with pytest.raises(MessageUnwritable, match=r"MRM\.Block4 cannot be written as MRM: it is missing"):
        folder.render()


def test_copies_of_fields_keep_their_parts() -> None:
    folder = read(mt103(), "MT103")
    twin = at(folder, "Block4").copy()
    assert at(twin, "F32A.Currency").value == "EUR"
    at(folder, "Block4.F32A.Currency").set_value("USD")
    again = at(folder, "Block4").copy()
    assert at(again, "F32A.Currency").value == "USD"
    assert at(twin, "F32A.Currency").value == "EUR"


# --- round trips -----------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.sampled_from(MESSAGES))
@settings(max_examples=40)
def test_random_messages_survive_reading_and_writing_by_text_and_by_parts(seed: int, message: str) -> None:
    body = random_message(Random(seed), message)
    folder = read(body, message)
    assert written(folder) == body
    whole = shape(folder.children, parts=True)
    # Now the parts of all fields are there, and count.
    assert written(folder) == body
    assert shape(read(written(folder), message).children, parts=True) == whole


@given(st.integers(0, 2**32), st.sampled_from(MESSAGES))
@settings(max_examples=20)
def test_the_tds_engine_reads_and_writes_the_same_by_the_model_alone(seed: int, message: str) -> None:
    body = random_message(Random(seed), message)
    engine = _engine(message)
    root = Element("MRM")
    root.fill(engine.parse(body, UTF8, NATIVE))
    assert shape(root.children) == shape(SwiftCodec(message).parse(body, UTF8, NATIVE))
    assert engine.render(root, UTF8, NATIVE) == body


_engines: dict[str, Any] = {}


def _engine(message: str) -> Any:
    if message not in _engines:
        _engines[message] = compile_tds(load_swift(), message, "TDS1")
    return _engines[message]


# --- the set ------------------------------------------------------------------------------------------------


def test_the_set_is_found_by_its_name() -> None:
    found = find_set("SWIFT")
    assert found.name == "SWIFT"
    assert set(found.messages) == {"MT103", "MT543", "MT940"}
    assert list(found.formats) == ["TDS1"]
    assert found.messages["MT543"].identifier == "543"
    assert isinstance(MRM.codec(MessageFormat(found, "MT543", "TDS1")), SwiftCodec)


def test_the_set_can_be_written_down_in_the_notation() -> None:
    again = read_notation(write_notation(load_swift()))
    assert {name: shape_of(each.structure) for name, each in again.messages.items()} == {
        name: shape_of(each.structure) for name, each in load_swift().messages.items()
    }
    engine = compile_tds(again, "MT940", "TDS1")
    assert shape(engine.parse(mt940(), UTF8, NATIVE)) == shape(SwiftCodec("MT940").parse(mt940(), UTF8, NATIVE))


def shape_of(structure: Structure) -> Any:
    """A structure without the lines that its members came from."""
    members = []
    for member in structure.members:
        content = shape_of(member.content) if isinstance(member.content, Structure) else member.content
        members.append((member.name, member.min_occurs, member.max_occurs, dict(member.physical), content))
    return structure.name, structure.composition, dict(structure.physical), members


def test_the_set_survives_pickle() -> None:
    assert pickle.loads(pickle.dumps(load_swift())) == load_swift()


def test_a_block_that_nothing_changed_leaves_as_its_text_and_a_changed_one_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    write = SwiftCodec._write_text

    def noted(self: SwiftCodec, table: Any, sequence: Element, pieces: list[str]) -> None:
        written.append(sequence.key)
        write(self, table, sequence, pieces)

    monkeypatch.setattr(SwiftCodec, "_write_text", noted)
    body = mt543()
    folder = Folder(MRM, body, model=find_format("SWIFT", "MT543", "TDS1"))
    header = folder.first("Block1")
    assert header is not None
    header.children[3].set_value("4321")
    assert folder.render() == body.replace(b"XXX2222", b"XXX4321", 1)
    assert written == []
    text = folder.first("Block4")
    assert text is not None
    text.children[0].children[0].set_value(":SEME//OTHER")
    assert b":20C::SEME//OTHER\r\n" in folder.render()
    assert written[0] == "Block4"
