# SPDX-License-Identifier: Apache-2.0
"""MQDLH, and chains of headers; the bytes are put together by hand, not with the code under test."""

from __future__ import annotations

from datetime import UTC, date, time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import CodePageUnknown, EntrepotError, MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.models.headers.chain import read_headers
from entrepot.models.headers.mqdlh import read_mqdlh, write_mqdlh


def number(value: int, order: str) -> bytes:
    return value.to_bytes(4, order, signed=True)  # type: ignore[arg-type]


def dlh(
    format_name: str = "MQSTR",
    *,
    order: str = "little",
    codec: str = "ascii",
    version: int = 1,
    encoding: int = 546,
    ccsid: int = 819,
) -> bytes:
    return b"".join(
        [
            "DLH ".encode(codec),
            number(version, order),
            number(2053, order),
            "LOST.QUEUE".ljust(48).encode(codec),
            "QM1".ljust(48).encode(codec),
            number(encoding, order),
            number(ccsid, order),
            format_name.ljust(8).encode(codec),
            number(6, order),
            "amqsput".ljust(28).encode(codec),
            "20240102".encode(codec),
            "03040506".encode(codec),
        ]
    )


def rfh2(
    format_name: str = "MQSTR", *, order: str = "little", codec: str = "ascii", encoding: int = 546, ccsid: int = 819
) -> bytes:
    text = b"<usr><a>1</a></usr> "
    return (
        "RFH ".encode(codec)
        + number(2, order)
        + number(40 + len(text), order)
        + number(encoding, order)
        + number(ccsid, order)
        + format_name.ljust(8).encode(codec)
        + number(0, order)
        + number(1208, order)
        + number(len(text), order)
        + text
    )


DLH_VALUES: dict[str, Any] = {
    "Version": 1,
    "Reason": 2053,
    "DestQName": "LOST.QUEUE" + " " * 38,
    "DestQMgrName": "QM1" + " " * 45,
    "Encoding": 546,
    "CodedCharSetId": 819,
    "Format": "MQSTR   ",
    "PutApplType": 6,
    "PutApplName": "amqsput" + " " * 21,
    "PutDate": date(2024, 1, 2),
    "PutTime": time(3, 4, 5, 60_000, UTC),
}

MACHINES = [
    ("little", "ascii", 546, 1208),
    ("big", "ascii", 273, 819),
    ("big", "cp500", 785, 500),
    ("little", "cp037", 546, 1047),
]


@pytest.mark.parametrize(("order", "codec", "encoding", "ccsid"), MACHINES)
def test_a_dead_letter_header_of_each_machine_reads_and_is_written_alike(
    order: str, codec: str, encoding: int, ccsid: int
) -> None:
    data = dlh(order=order, codec=codec)
    assert len(data) == 172
    folder, end = read_mqdlh(b"1" + data + b"2", 1, encoding, ccsid)
    assert end == 173
    assert [(child.key, child.value) for child in folder] == list(DLH_VALUES.items())
    assert folder.render() == data
    folder.changed()
    assert folder.render() == data
    assert write_mqdlh(DLH_VALUES, encoding, ccsid) == data


@pytest.mark.parametrize(
    ("field", "offset"),
    [("Reason", 8), ("Encoding", 108), ("CodedCharSetId", 112), ("PutApplType", 124)],
)
def test_a_number_of_the_dead_letter_header_lies_where_the_manual_says(field: str, offset: int) -> None:
    assert write_mqdlh({field: 0x01020304}, 273, 819)[offset : offset + 4] == b"\x01\x02\x03\x04"


def test_a_dead_letter_header_cut_at_any_byte_is_refused() -> None:
    for cut in range(172):
        with pytest.raises(MessageUnreadable) as caught:
            read_mqdlh(dlh()[:cut])
        assert caught.value.offset == cut


def test_another_version_is_refused_and_a_long_name_is_not_cut() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read_mqdlh(dlh(version=2))
    assert (caught.value.path, caught.value.offset) == ("Version", 4)
    with pytest.raises(MessageUnwritable):
        write_mqdlh({"DestQName": "Q" * 49})


def test_a_body_without_headers_is_all_rest() -> None:
    assert read_headers(b"hello", "MQSTR", 546, 819) == ([], 0, "MQSTR", 546, 819)
    assert read_headers(b"", "", 273, 500) == ([], 0, "", 273, 500)


def test_each_header_names_the_next_and_how_it_is_written() -> None:
    body = (
        dlh("MQHRF2", order="big", codec="cp500", encoding=546, ccsid=1208)
        + rfh2("MQHRF2", encoding=273, ccsid=819)
        + rfh2("MQSTR", order="big", encoding=785, ccsid=500)
        + b"rest"
    )
    chain = read_headers(body, "MQDEAD  ", 785, 500)
    assert [folder.key for folder in chain.folders] == ["MQDLH", "MQRFH2", "MQRFH2"]
    assert [(folder.encoding, folder.ccsid) for folder in chain.folders] == [(785, 500), (546, 1208), (273, 819)]
    assert chain[1:] == (172 + 60 + 60, "MQSTR", 785, 500)
    assert b"".join(folder.render() for folder in chain.folders) + b"rest" == body
    assert chain.folders[2].get("usr", "a") == "1"


def test_a_code_page_that_is_inherited_is_the_header_s_own() -> None:
    assert read_headers(rfh2(ccsid=-2), "MQHRF2", 546, 819)[4] == 819
    assert read_headers(rfh2(ccsid=0), "MQHRF2", 546, 819)[4] == 819
    with pytest.raises(MessageUnreadable):
        read_headers(rfh2(ccsid=-5), "MQHRF2", 546, 819)


@pytest.mark.parametrize(("format_name", "header"), [("MQCICS", "MQCIH"), ("MQIMS", "MQIIH"), ("MQHRF", "MQRFH")])
def test_a_header_that_nobody_reads_ends_the_chain_and_is_named(format_name: str, header: str) -> None:
    chain = read_headers(rfh2(format_name) + b"CIH rest", "MQHRF2", 546, 1208)
    assert chain.format == format_name
    assert chain.offset == 60
    assert chain.unsupported == header
    assert read_headers(b"", "MQSTR", 546, 1208).unsupported == ""


def test_a_chain_that_announces_itself_for_ever_ends_with_its_bytes() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read_headers(rfh2("MQHRF2") * 3, "MQHRF2", 546, 819)
    assert caught.value.offset == 180
    with pytest.raises(MessageTooComplex):
        read_headers(rfh2("MQHRF2") * 200, "MQHRF2", 546, 819)


def test_a_code_page_in_the_middle_that_nobody_knows_is_told() -> None:
    with pytest.raises(CodePageUnknown) as caught:
        read_headers(rfh2("MQHRF2", ccsid=77777) + rfh2(), "MQHRF2", 546, 819)
    assert caught.value.ccsid == 77777


def test_a_chain_cut_at_any_byte_is_refused() -> None:
    body = dlh("MQHRF2") + rfh2()
    for cut in range(len(body)):
        with pytest.raises(MessageUnreadable) as caught:
            read_headers(body[:cut], "MQDEAD", 546, 819)
        assert 0 <= caught.value.offset <= cut


@given(
    st.binary(max_size=260),
    st.sampled_from(["MQDEAD", "MQHRF2"]),
    st.sampled_from([546, 273]),
    st.sampled_from([819, 1208, 500]),
)
@settings(max_examples=100)
def test_rubbish_is_a_chain_or_an_error_of_ours(rubbish: bytes, format_name: str, encoding: int, ccsid: int) -> None:
    for body in (rubbish, dlh("MQHRF2") + rubbish, b"DLH " + rubbish, b"RFH \2\0\0\0" + rubbish):
        try:
            chain = read_headers(body, format_name, encoding, ccsid)
        except EntrepotError:
            continue
        assert 0 <= chain.offset <= len(body)
