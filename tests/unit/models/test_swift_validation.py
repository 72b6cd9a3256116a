# SPDX-License-Identifier: Apache-2.0
"""Each class of mistake in a SWIFT message, with the sequence, field, line and position that are reported."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import MessageUnreadable, ValidationFailed
from entrepot.models.swift import require_valid, validate
from entrepot.models.swift.codec import SwiftCodec
from entrepot.models.swift.mistakes import PROBLEMS_MAX, explain
from entrepot.models.swift.tables import message_table
from entrepot.models.swift.validation import is_valid_text
from entrepot.models.tree import Element
from folding import for_each
from golden.models.swift_messages import framed, mt103, mt543, mt940, random_message

SMALL = [
    "16R:GENL",  # line 2
    "20C::SEME//REF1",
    "23G:NEWM",
    "98A::PREP//20240103",  # line 5
    "16R:LINK",
    "20C::RELA//X1",
    "16S:LINK",
    "16S:GENL",
    "16R:TRADDET",  # line 10
    "98A::SETT//20240105",
    "98A::TRAD//20240103",
    "35B:ISIN DE0005140008\r\nDEUTSCHE BANK",  # two lines
    "16S:TRADDET",  # line 15
    "16R:FIAC",
    "36B::SETT//UNIT/100,",
    "97A::SAFE//ACC1",
    "16S:FIAC",
    "16R:SETDET",  # line 20
    "22F::SETR//TRAD",
    "16R:SETPRTY",
    "95P::DEAG//BANKDEFF",
    "16S:SETPRTY",
    "16R:SETPRTY",  # line 25
    "95P::PSET//CEDELULL",
    "97A::SAFE//123",
    "16S:SETPRTY",
    "16R:AMT",
    "19A::SETT//EUR100,",  # line 30
    "16S:AMT",
    "16S:SETDET",
]


def with_change(old: str, *new: str) -> tuple[str, ...]:
    """The problems of SMALL where one field is replaced by others."""
    at = SMALL.index(old)
    return validate(framed("543", [*SMALL[:at], *new, *SMALL[at + 1 :]]), "MT543")


@pytest.mark.parametrize("body", [framed("543", SMALL), mt543(), mt543(6449), mt103(), mt940()])
def test_a_valid_message_has_no_problems(body: bytes) -> None:
    assert validate(body) == ()
    require_valid(body)


def test_the_measured_message_has_its_size_and_all_sequences() -> None:
    body = mt543(6449)
    assert len(body) == 6449
    for sequence in [
        "GENL",
        "LINK",
        "TRADDET",
        "FIA",
        "FIAC",
        "BREAK",
        "REPO",
        "SETDET",
        "SETPRTY",
        "CSHPRTY",
        "AMT",
        "NTWKFEE",
        "OTHRPRTY",
    ]:
        assert b":16R:%b\r\n" % sequence.encode() in body
    for repeated in (b"LINK", b"BREAK", b"SETPRTY", b"CSHPRTY", b"AMT", b"OTHRPRTY"):
        assert body.count(b":16R:%b\r\n" % repeated) > 1


@for_each(
    ("old", "new", "problem"),
    [
        # formats
        (
            "20C::SEME//REF1",
            "20C::SEME/REF1",
            "sequence A GENL, field 20C, line 3, position 11: '//' is missing, found '/REF1'",
        ),
        (
            "98A::PREP//20240103",
            "98A::PREP//20240230",
            "sequence A GENL, field 98A, line 5, position 13: Date '20240230' is no day: YYYYMMDD",
        ),
        (
            "20C::RELA//X1",
            "20C::RELA//X1/",
            "sequence A1 LINK (1st), field 20C, line 7, position 13: Reference must not begin or end with "
            "'/' or have '//' inside, found 'X1/'",
        ),
        (
            "95P::PSET//CEDELULL",
            "95P::PSET//CEDELUL",
            "sequence E1 SETPRTY (2nd), field 95P, line 26, position 13: BIC has 8 or 11 characters, found "
            "7 ('CEDELUL')",
        ),
        (
            "36B::SETT//UNIT/100,",
            "36B::SETT//UNIT/100",
            "sequence C FIAC, field 36B, line 17, position 18: Quantity has one comma, found none ('100')",
        ),
        (
            "19A::SETT//EUR100,",
            "19A::SETT//EU100,",
            "sequence E3 AMT (1st), field 19A, line 30, position 13: Currency has 3 capital letters, found 2 ('EU')",
        ),
        (
            "35B:ISIN DE0005140008\r\nDEUTSCHE BANK",
            "35B:ISIN DE0005140008\r\nDEUTSCHE_BANK",
            "sequence B TRADDET, field 35B, line 14, position 9: '_' is not in SWIFT's character set x",
        ),
        (
            "35B:ISIN DE0005140008\r\nDEUTSCHE BANK",
            "35B:",
            "sequence B TRADDET, field 35B, line 13, position 6: it is empty",
        ),
        (
            "23G:NEWM",
            "23G:OLDM",
            "sequence A GENL, field 23G, line 4, position 6: Function 'OLDM' is none of NEWM, CANC, PREA",
        ),
        # qualifiers
        (
            "98A::PREP//20240103",
            "98A::TRAD//20240103",
            "sequence A GENL, field 98A, line 5, position 7: Qualifier 'TRAD' should be PREP",
        ),
        (
            "98A::TRAD//20240103",
            "98A::SETT//20240103",
            "sequence B TRADDET, field 98A, line 12, position 7: qualifier SETT is there again, the first "
            "is in line 11",
        ),
        ("98A::SETT//20240105", "98A::ADEL//20240105", "sequence B TRADDET: field 98a with qualifier SETT is missing"),
        (
            "98A::TRAD//20240103",
            "98B::ADEL//OPEN",
            "sequence B TRADDET, field 98B, line 12, position 7: Qualifier 'ADEL' is none of SETT, TRAD",
        ),
        (
            "95P::DEAG//BANKDEFF",
            "95C::DEAG//DE",
            "sequence E1 SETPRTY (1st), field 95C, line 23, position 7: Qualifier 'DEAG' should be PSET",
        ),
        ("97A::SAFE//ACC1", "97A::CASH//ACC1", "sequence C FIAC: field 97a with qualifier SAFE is missing"),
        ("22F::SETR//TRAD", "22F::STCO//NPAR", "sequence E SETDET: field 22F with qualifier SETR is missing"),
        (
            "19A::SETT//EUR100,",
            "19A::RESU//EUR100,",
            "sequence E3 AMT (1st): field 19A with one of the qualifiers ACRU, CHAR, COUN, DEAL, EXEC, "
            "ISDI, LADT, LEVY, LOCL, LOCO, MARG, OTHR, REGF, SETT, SHIP, SPCN, STAM, STEX, TRAN, TRAX, "
            "VATA, WITH, ANTO, COAX, ACCA, RSCH is missing",
        ),
        # order and presence
        (
            "16S:LINK",
            "22F::LINK//WITH",
            "sequence A1 LINK (1st), line 8: field 22F comes too late, its place is before field 20a",
        ),
        ("97A::SAFE//ACC1", "70D::DENC//X", "sequence C FIAC: field 97a is missing before 16S:FIAC (line 19)"),
        ("36B::SETT//UNIT/100,", "70D::DENC//X", "sequence C FIAC: field 36a is missing before 70D (line 17)"),
        (
            "16S:GENL",
            "99Z::SETT//001",
            "sequence A GENL, line 9: field 99Z does not belong here; expected 16R:LINK or 16S:GENL",
        ),
        (
            "97A::SAFE//ACC1",
            "97A",
            "sequence C FIAC, line 18: '97A' is no field; expected 36a or 70D or 13B or 95a or 97a",
        ),
        ("16S:LINK", "16S:LINC", "sequence A1 LINK (1st), line 8: 16S:LINC ends nothing that is open"),
    ],
)
def test_one_mistake_is_found_where_it_is(old: str, new: str, problem: str) -> None:
    problems = with_change(old, new)
    assert problem in problems
    # A field that stands instead of an end leaves its sequence open, which is a second mistake.
    ends = [each for each in problems if "16S:" in each and "is missing before" in each]
    assert [each for each in problems if each not in ends or each == problem] == [problem]


def test_a_missing_field_is_named_with_its_successor() -> None:
    assert with_change("23G:NEWM") == ("sequence A GENL: field 23G is missing before 98A (line 4)",)


def test_a_missing_field_at_the_end_of_a_sequence_is_named() -> None:
    assert with_change("95P::DEAG//BANKDEFF") == (
        "sequence E1 SETPRTY (1st): field 95a is missing before 16S:SETPRTY (line 23)",
    )


def test_a_field_that_comes_twice_is_named() -> None:
    assert with_change("23G:NEWM", "23G:NEWM", "23G:CANC") == (
        "sequence A GENL, line 5: field 23G is there twice, once is allowed",
    )


def test_a_field_in_the_wrong_place_is_not_missing_too() -> None:
    assert with_change("98A::PREP//20240103") == ()
    at = SMALL.index("23G:NEWM")
    lines = [*SMALL[:at], SMALL[at + 1], SMALL[at], *SMALL[at + 2 :]]
    assert validate(framed("543", lines)) == (
        "sequence A GENL, line 4: field 98A comes too early, field 23G (line 5) belongs before it",
    )


def test_an_unknown_sequence_is_passed_over() -> None:
    problems = with_change("16S:GENL", "16R:FOO", "20C::X", "99Z:!", "16S:FOO", "16S:GENL")
    assert problems == ("sequence A GENL, line 9: sequence FOO does not belong here; expected 16R:LINK or 16S:GENL",)


def test_a_sequence_without_an_end_is_ended_by_its_neighbour() -> None:
    assert with_change("16S:GENL") == ("sequence A GENL: 16S:GENL is missing before 16R:TRADDET (line 9)",)
    assert with_change("16S:LINK") == ("sequence A1 LINK (1st): 16S:LINK is missing before 16S:GENL (line 8)",)
    assert with_change("16S:SETDET") == ("sequence E SETDET: 16S:SETDET is missing at the end (line 32)",)


def test_a_mandatory_sequence_is_missed() -> None:
    at = SMALL.index("16R:FIAC")
    lines = [*SMALL[:at], *SMALL[at + 4 :]]
    assert validate(framed("543", lines)) == ("sequence C FIAC is missing before 16R:SETDET (line 16)",)
    at = SMALL.index("16R:AMT")
    assert validate(framed("543", [*SMALL[:at], *SMALL[at + 3 :]])) == (
        "sequence E SETDET: sequence E3 AMT is missing before 16S:SETDET (line 29)",
    )


def test_two_parties_in_one_sequence_are_one_too_many() -> None:
    assert with_change("95P::DEAG//BANKDEFF", "95P::DEAG//BANKDEFF", "95P::REAG//AGNTUS33") == (
        "sequence E1 SETPRTY (1st), field 95P, line 24, position 7: "
        "qualifier REAG beside DEAG in line 23: only one of them may be there",
    )


def test_all_problems_are_found_at_once() -> None:
    lines = list(SMALL)
    lines[SMALL.index("23G:NEWM")] = "23G:NEW"
    lines[SMALL.index("97A::SAFE//123")] = "97A:SAFE//123"
    lines[SMALL.index("19A::SETT//EUR100,")] = "19A::SETT//EUR100"
    assert validate(framed("543", lines)) == (
        "sequence A GENL, field 23G, line 4, position 6: Function has 4 capital letters or digits, found 3 ('NEW')",
        "sequence E1 SETPRTY (2nd), field 97A, line 27, position 6: ':' is missing, found 'SAFE//123'",
        "sequence E3 AMT (1st), field 19A, line 30, position 16: Amount has one comma, found none ('100')",
    )


@for_each(
    ("body", "problem"),
    [
        (
            b"{1:F01BANKBEBBAXXX222212345}{2:I103BANKDEFFXXXXN}{4:\r\n:20:X\r\n-}",
            "Block1.SequenceNumber, line 1, position 23: SequenceNumber should match [0-9]{6}, found '12345'",
        ),
        (b"{1:F01BANKBEBBAXXX2222123456}{4:\r\n:20:X\r\n-}", "Block2, line 1, position 30: block 2 is missing"),
        (
            b"{1:F01BANKBEBBAXXX2222123456}{2:I103BANKDEFFXXXXN}",
            "Block4, line 1, position 51: block 4, the text, is missing",
        ),
        (
            b"{1:F01BANKBEBBAXXX2222123456}{2:I103BANKDEFFXXXXN}{4:\n:20:X\n-}",
            "Block4, line 1, position 54: lines end with LF alone; SWIFT's lines end with CR LF",
        ),
        (
            b"{1:F01BANKBEBBAXXX2222123456}{2:I103BANKDEFFXXXXN}{4:\r\n:20:X\r\n",
            "Block4, line 3, position 1: block 4 has no end: a line with -} is missing",
        ),
        (
            b"{1:F01BANKBEBBAXXX2222123456}{2:I999BANKDEFFXXXXN}{4:\r\n:20:X\r\n-}",
            "MT999 is not known; there is MT103, MT543, MT940",
        ),
        (b"\xff", "offset 0: X'ff' is nothing in code page 1208"),
        (b"", "Block4, line 1, position 1: block 4, the text, is missing"),
    ],
)
def test_mistakes_in_the_blocks_are_found(body: bytes, problem: str) -> None:
    assert validate(body) == (problem,)


def test_a_block_behind_the_text_is_checked() -> None:
    assert validate(mt103().replace(b"{MAC:", b"{MAX:")) == (
        "Block5, line 33, position 7: block 5 has no field MAX; it has MAC, PAC, CHK, SYS, TNG, PDE, DLM, PDM, MRF",
    )


def test_block_2_must_name_the_type_that_is_wanted() -> None:
    assert validate(mt103(), "MT543") == (
        "Block2.MessageType, line 1, position 1: block 2 says MT103, but it is read as MT543",
    )


@for_each(
    ("old", "new", "problem"),
    [
        (b":23B:CRED\r\n", b"", "field 23B is missing before 23E (line 4)"),
        (
            b":23B:CRED",
            b":23B:CREX",
            "field 23B, line 4, position 6: Code 'CREX' is none of CRED, CRTS, SPAY, SPRI, SSTD",
        ),
        (b":32A:240105", b":32A:241305", "field 32A, line 7, position 6: Date '241305' is no day: YYMMDD"),
        (
            b"2/HAUPTSTRASSE",
            b"X/HAUPTSTRASSE",
            "field 50F, line 12, position 1: NameAndAddress has 1 digit, found 'X/HAUPTSTRASSE 1'",
        ),
        (b":71A:SHA", b":71A:SHO", "field 71A, line 27, position 6: Code 'SHO' is none of BEN, OUR, SHA"),
        (b"/SNDTIME/1015+0100", b"/SNDTIME/1015x0100", "field 13C, line 3, position 19: Sign 'x' is none of +, -"),
        (b"BANKFRPP", b"BANKFRP", "field 57A, line 20, position 6: BIC has 8 or 11 characters, found 7 ('BANKFRP')"),
        (b":71A:SHA\r\n", b":99A:SHA\r\n", "line 27: field 99A does not belong here; expected 71A"),
    ],
)
def test_mistakes_of_a_payment_are_found(old: bytes, new: bytes, problem: str) -> None:
    assert mt103().count(old) == 1
    assert problem in validate(mt103().replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            b":61:240105C100,",
            b":61:240105X100,",
            "StatementLine (2nd), field 61, line 11, position 11: DCMark is one of C, D, RC, RD, found "
            "'X100,NMSCNONREF'",
        ),
        (b":62F:C240105EUR1088,70\r\n", b"", "field 62a is missing before 64 (line 14)"),
        (
            b":28C:5/1",
            b":28C:5/",
            "field 28C, line 5, position 8: SequenceNumber has 1 to 5 digits, found the end of the field",
        ),
        (b":60F:C", b":60F:X", "field 60F, line 6, position 6: DCMark 'X' is none of C, D"),
        (
            b":86:PURCHASE\r\n",
            b":86:PURCHASE\r\n:86:AGAIN\r\n",
            "line 10: field 86 comes too early, field 62a (line 15) belongs before it",
        ),
    ],
)
def test_mistakes_of_a_statement_are_found(old: bytes, new: bytes, problem: str) -> None:
    assert mt940().count(old) == 1
    assert problem in validate(mt940().replace(old, new))


def test_a_tree_is_validated_as_it_would_be_written() -> None:
    root = Element("MRM")
    root.fill(SwiftCodec("MT543").parse(framed("543", SMALL), 1208, 546))
    assert validate(root) == ()
    date = root.children[3].children[0].children[2].children[1]
    assert (date.key, date.value) == ("Date", "20240103")
    date.set_value("20241301")
    assert validate(root) == ("sequence A GENL, field 98A, line 5, position 13: Date '20241301' is no day: YYYYMMDD",)


def test_a_tree_that_cannot_be_written_is_not_valid() -> None:
    root = Element("MRM")
    root.fill(SwiftCodec("MT543").parse(framed("543", SMALL), 1208, 546))
    root.children[3].add("COLOUR", "red")
    problems = validate(root)
    assert len(problems) == 1
    assert problems[0].startswith("MRM.Block4.COLOUR: MT543 has no such field; it has GENL, TRADDET")


def test_an_invalid_message_is_refused_with_all_problems() -> None:
    with pytest.raises(ValidationFailed) as caught:
        require_valid(mt103().replace(b":23B:CRED\r\n", b""))
    assert caught.value.problems == ("field 23B is missing before 23E (line 4)",)
    assert "field 23B is missing" in str(caught.value)


@for_each("name", ["MT103", "MT543", "MT940"])
@for_each(
    "fields", [[""], ["", ""], [":"], ["16R"], ["16R:"], ["16S:"], ["16S:GENL"], ["16R:GENL", ""], ["61:", ""], ["-"]]
)
def test_fields_without_content_are_problems_and_nothing_worse(name: str, fields: list[str]) -> None:
    body = framed(name[2:], fields)
    assert validate(body) != ()
    table = message_table(name)
    assert not is_valid_text(table, fields)
    assert explain(table, fields, 2) != []
    with pytest.raises(MessageUnreadable):
        SwiftCodec(name).parse(body, 1208, 546)


def test_the_number_of_problems_has_a_limit() -> None:
    problems = validate(framed("103", ["99Z:X"] * 5000))
    assert len(problems) == PROBLEMS_MAX + 1
    assert problems[-1] == "there are more problems"


@given(st.integers(0, 2**32), st.sampled_from(["MT103", "MT543", "MT940"]))
@settings(max_examples=40)
def test_messages_made_by_the_rules_are_valid(seed: int, name: str) -> None:
    assert validate(random_message(Random(seed), name), name) == ()


@given(st.integers(0, 2**32), st.sampled_from(["MT103", "MT543", "MT940"]))
@settings(max_examples=150)
def test_the_quick_walk_and_the_explaining_one_agree(seed: int, name: str) -> None:
    random = Random(seed)
    text = random_message(random, name).decode()
    fields = text[text.index("{4:") + 6 : text.rindex("\r\n-}")].split("\r\n:")
    for _ in range(random.randint(0, 2)):
        at = random.randrange(len(fields))
        match random.randrange(6):
            case 5:
                fields[at] = random.choice(("", ":", "16R:", "16S:GENL", "16R:AMT", "86:X", "61:"))
            case 0:
                del fields[at]
            case 1:
                fields.insert(random.randrange(len(fields)), fields[at])
            case 2:
                fields[at], fields[-1 - at] = fields[-1 - at], fields[at]
            case 3:
                fields[at] = fields[at][:-1]
            case _:
                fields[at] = fields[at].replace("A", "1", 1)
        if not fields:
            return
    table = message_table(name)
    assert is_valid_text(table, fields) == (explain(table, fields, 2) == [])
