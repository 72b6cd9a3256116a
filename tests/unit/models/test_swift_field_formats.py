# SPDX-License-Identifier: Apache-2.0
"""SWIFT's notation of field formats: what fits, which parts there are, and where a text goes wrong."""

from __future__ import annotations

import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import ModelInvalid
from entrepot.models.swift import FieldFormat, field_formats
from folding import for_each
from golden.models.swift_messages import random_message

REFERENCE = FieldFormat(":4!c//16x", ["Qualifier", "Reference"], no_slashes=["Reference"])
PARTY = FieldFormat("[/1!a][/34x]$4*35x", ["Mark", "Account", "Name"])


@for_each(
    ("tag", "text", "parts"),
    [
        ("98A", ":SETT//20240229", [("Qualifier", "SETT"), ("Date", "20240229")]),
        ("98C", ":PREP//20240103101530", [("Qualifier", "PREP"), ("Date", "20240103"), ("Time", "101530")]),
        (
            "98E",
            ":PREP//20240103101530,123/N0530",
            [
                ("Qualifier", "PREP"),
                ("Date", "20240103"),
                ("Time", "101530"),
                ("Decimals", "123"),
                ("Sign", "N"),
                ("Offset", "0530"),
            ],
        ),
        (
            "98E",
            ":PREP//20240103101530/02",
            [("Qualifier", "PREP"), ("Date", "20240103"), ("Time", "101530"), ("Offset", "02")],
        ),
        ("23G", "CANC/COPY", [("Function", "CANC"), ("Subfunction", "COPY")]),
        ("23G", "NEWM", [("Function", "NEWM")]),
        ("22F", ":SETR//TRAD", [("Qualifier", "SETR"), ("Indicator", "TRAD")]),
        ("22F", ":SETR/DAKV/TRAD", [("Qualifier", "SETR"), ("DataSourceScheme", "DAKV"), ("Indicator", "TRAD")]),
        (
            "19A",
            ":SETT//NEUR1250,5",
            [("Qualifier", "SETT"), ("Sign", "N"), ("Currency", "EUR"), ("Amount", "1250,5")],
        ),
        ("19A", ":SETT//NOK1,", [("Qualifier", "SETT"), ("Currency", "NOK"), ("Amount", "1,")]),
        ("95P", ":DEAG//BANKDEFFXXX", [("Qualifier", "DEAG"), ("IdentifierCode", "BANKDEFFXXX")]),
        ("95R", ":MEOR/DAKV/7003", [("Qualifier", "MEOR"), ("DataSourceScheme", "DAKV"), ("ProprietaryCode", "7003")]),
        ("35B", "ISIN DE0005140008", [("ISIN", "DE0005140008")]),
        (
            "35B",
            "ISIN DE0005140008\r\nDEUTSCHE BANK\r\nNAMENS-AKTIEN",
            [("ISIN", "DE0005140008"), ("Description", "DEUTSCHE BANK"), ("Description", "NAMENS-AKTIEN")],
        ),
        ("35B", "/XX/LOCAL CODE", [("Description", "/XX/LOCAL CODE")]),
        ("32A", "240105EUR1250,5", [("Date", "240105"), ("Currency", "EUR"), ("Amount", "1250,5")]),
        ("28C", "5/1", [("StatementNumber", "5"), ("SequenceNumber", "1")]),
        ("53B", "/C/123\r\nPARIS", [("DCMark", "C"), ("Account", "123"), ("Location", "PARIS")]),
        ("53B", "/123", [("Account", "123")]),
        ("53B", "PARIS", [("Location", "PARIS")]),
        ("50K", "/1\r\nA\r\nB", [("Account", "1"), ("NameAndAddress", "A"), ("NameAndAddress", "B")]),
        (
            "50F",
            "/123\r\n1/ANNA\r\n3/DE/BERLIN",
            [("PartyIdentifier", "/123"), ("NameAndAddress", "1/ANNA"), ("NameAndAddress", "3/DE/BERLIN")],
        ),
        ("13C", "/SNDTIME/1015+0100", [("Code", "SNDTIME"), ("ClockTime", "1015"), ("Sign", "+"), ("Offset", "0100")]),
        (
            "61",
            "2401050105RCE12,5NTRFINV//BANK\r\nDETAILS",
            [
                ("ValueDate", "240105"),
                ("EntryDate", "0105"),
                ("DCMark", "RC"),
                ("FundsCode", "E"),
                ("Amount", "12,5"),
                ("TransactionType", "N"),
                ("IdentificationCode", "TRF"),
                ("AccountOwnerReference", "INV"),
                ("InstitutionReference", "BANK"),
                ("SupplementaryDetails", "DETAILS"),
            ],
        ),
    ],
)
def test_a_field_is_taken_apart_and_put_together_again(tag: str, text: str, parts: list[tuple[str, str]]) -> None:
    form = field_formats()[tag]
    assert form.is_valid(text)
    assert form.split(text) == parts
    assert form.join(parts) == text
    assert form.explain(text) is None


@for_each(
    ("tag", "text", "part", "offset", "problem"),
    [
        ("20C", "SEME//X", "", 0, "':' is missing, found 'SEME//X'"),
        ("20C", ":SEM//X", "Qualifier", 1, "Qualifier has 4 capital letters or digits, found 3 ('SEM')"),
        ("20C", ":SEME/X", "", 5, "'//' is missing, found '/X'"),
        ("20C", ":SEME//", "Reference", 7, "Reference has 1 to 16 characters, found the end of the field"),
        (
            "20C",
            ":SEME//ABCDEFGHIJKLMNOPQR",
            "Reference",
            7,
            "Reference has 1 to 16 characters, found 18 ('ABCDEFGHIJKLMNOPQR')",
        ),
        ("20C", ":SEME//AB_C", "Reference", 9, "'_' is not in SWIFT's character set x"),
        (
            "20C",
            ":SEME//A//B",
            "Reference",
            7,
            "Reference must not begin or end with '/' or have '//' inside, found 'A//B'",
        ),
        ("20", "REF/", "Reference", 0, "Reference must not begin or end with '/' or have '//' inside, found 'REF/'"),
        ("98A", ":SETT//20230229", "Date", 7, "Date '20230229' is no day: YYYYMMDD"),
        ("98A", ":SETT//19000229", "Date", 7, "Date '19000229' is no day: YYYYMMDD"),
        ("98A", ":SETT//2023O101", "Date", 7, "Date has 8 digits, found 4 ('2023')"),
        ("98C", ":PREP//20240101240000", "Time", 15, "Time '240000' is no time: HHMMSS"),
        ("32A", "240431EUR1,", "Date", 0, "Date '240431' is no day: YYMMDD"),
        ("95P", ":DEAG//BANKDEF", "IdentifierCode", 7, "BIC has 8 or 11 characters, found 7 ('BANKDEF')"),
        ("95P", ":DEAG//BANKDEFFXX", "IdentifierCode", 7, "BIC has 8 or 11 characters, found 10 ('BANKDEFFXX')"),
        ("95P", ":DEAG//BANK1EFF", "IdentifierCode", 11, "BIC begins with 6 letters, found '1' in 'BANK1EFF'"),
        (
            "95L",
            ":ALTE//529900T8BM49AURSDO5X",
            "LegalEntity",
            7,
            "legal entity identifier has 18 letters or digits and 2 digits, found 20 ('529900T8BM49AURSDO5X')",
        ),
        ("19A", ":SETT//EUR100", "Amount", 10, "Amount has one comma, found none ('100')"),
        ("19A", ":SETT//EUR1,0,0", "Amount", 10, "Amount has one comma, found 2 ('1,0,0')"),
        ("19A", ":SETT//EUR,5", "Amount", 10, "Amount has a digit before its comma, found ',5'"),
        (
            "19A",
            ":SETT//EUR1234567890123456,",
            "Amount",
            10,
            "Amount has at most 15 characters with its comma, found 17 ('1234567890123456,')",
        ),
        ("19A", ":SETT//EU100,", "Currency", 7, "Currency has 3 capital letters, found 2 ('EU')"),
        ("23G", "NEWM/", "Subfunction", 5, "Subfunction has 4 capital letters or digits, found the end of the field"),
        ("17B", ":ACRU//X", "Flag", 7, "Flag 'X' is none of N, Y"),
        ("35B", "ISIN DE000514000", "ISIN", 5, "ISIN has 12 capital letters or digits, found 11 ('DE000514000')"),
        ("35B", "A\r\nB\r\nC\r\nD\r\nE", "Description", 12, "Description has 4 lines at most"),
        ("35B", "", "", 0, "it is empty"),
        ("70", "A\r\n-B", "", 3, "a line must not begin with '-'"),
        ("53B", "/1\r\n:B", "", 4, "a line must not begin with ':'"),
        ("50K", "/123", "", 4, "a line is missing: NameAndAddress"),
        ("53B", "/123\r\n", "Location", 6, "Location has 1 to 35 characters, found the end of the field"),
        ("61", "240105X1,NMSCNONREF", "DCMark", 6, "DCMark is one of C, D, RC, RD, found 'X1,NMSCNONREF'"),
        ("60F", "C240105EUR1,X", "", 12, "nothing more belongs here, found 'X'"),
    ],
)
def test_a_mistake_is_explained_at_its_place(tag: str, text: str, part: str, offset: int, problem: str) -> None:
    form = field_formats()[tag]
    assert not form.is_valid(text)
    mistake = form.explain(text)
    assert mistake is not None
    assert (mistake.part, mistake.offset, mistake.problem) == (part, offset, problem)


def test_every_day_of_the_calendar_is_a_day_and_no_other() -> None:
    import datetime

    form = FieldFormat("8!n", ["Date"])
    for year in (1900, 2000, 2023, 2024):
        for month in range(14):
            for day in range(33):
                text = f"{year}{month:02}{day:02}"
                try:
                    datetime.date(year, month, day)
                except ValueError:
                    assert not form.is_valid(text), text
                else:
                    assert form.is_valid(text), text


def test_a_shape_is_right_where_a_code_or_day_is_not() -> None:
    form = field_formats()["98A"]
    assert form.split(":SETT//20230299") == [("Qualifier", "SETT"), ("Date", "20230299")]
    assert form.split(":SETT/20230101") is None


def test_qualifiers_narrow_a_format() -> None:
    form = field_formats()["22F"].with_qualifiers(["SETR", "STCO"])
    assert form.is_valid(":STCO//NPAR")
    assert not form.is_valid(":REPO//NPAR")
    mistake = form.explain(":REPO//NPAR")
    assert mistake is not None
    assert mistake.problem == "Qualifier 'REPO' is none of SETR, STCO"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([("Reference", "X")], "Qualifier is missing"),
        ([("Qualifier", "SEME")], "Reference is missing"),
        ([("Qualifier", "SEME"), ("Reference", "X"), ("Colour", "red")], "Colour is no part of :4!c//16x"),
        ([("Qualifier", "SEME"), ("Reference", "X"), ("Reference", "Y")], "Reference is there 2 times, 1 at most"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(parts: list[tuple[str, str]], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        REFERENCE.join(parts)


@for_each("notation", ["[4!c", "4!c]", "(2!n", "4!c//[]", "0x", "4*0x", "$4!c", "4!c$"])
def test_a_wrong_notation_is_refused(notation: str) -> None:
    with pytest.raises(ModelInvalid):
        FieldFormat(notation)


def test_names_are_counted_against_parts() -> None:
    with pytest.raises(ModelInvalid, match="has 2 parts, but 3 names are given"):
        FieldFormat("4!c[/4!c]", ["Function", "Subfunction", "More"])
    with pytest.raises(ModelInvalid, match="has more parts than the 1 names given"):
        FieldFormat("4!c[/4!c]", ["Function"])


def test_a_format_survives_pickle() -> None:
    twin = pickle.loads(pickle.dumps(REFERENCE))
    assert twin.split(":SEME//X") == [("Qualifier", "SEME"), ("Reference", "X")]
    assert not twin.is_valid(":SEME//X/")


@given(st.text(alphabet="ABZ019/:,.\r\n $[]_é", max_size=40))
@settings(max_examples=200)
def test_a_text_fits_or_is_explained_within_it(text: str) -> None:
    for form in (REFERENCE, PARTY, field_formats()["61"], field_formats()["35B"]):
        mistake = form.explain(text)
        assert (mistake is None) == bool(form.is_valid(text))
        if mistake is not None:
            assert 0 <= mistake.offset <= len(text)
        parts = form.split(text)
        if parts is not None:
            assert form.join(parts) == text


@given(st.integers(0, 2**32), st.sampled_from(["MT103", "MT543", "MT940"]))
@settings(max_examples=30)
def test_fields_at_random_are_taken_apart_and_put_together_again(seed: int, name: str) -> None:
    body = random_message(Random(seed), name).decode()
    for field in body[body.index("{4:") + 6 : body.rindex("\r\n-}")].split("\r\n:"):
        tag, _, text = field.partition(":")
        form = field_formats().get(tag)
        if form is not None:
            parts = form.split(text)
            assert parts is not None
            assert form.join(parts) == text
