# SPDX-License-Identifier: Apache-2.0
"""The known answers are written byte by byte after the layout in MQ's manual."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import EntrepotError, MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.message import Message
from entrepot.models.element_types import XMLNSC_ATTRIBUTE
from entrepot.models.headers.mqrfh2 import (
    MQRFH2,
    content_descriptor,
    folder_of,
    properties_of,
    read_mqrfh2,
    write_mqrfh2,
)
from entrepot.models.headers.origin import Origin
from entrepot.models.tree import Element, Folder
from folding import for_each


def number(value: int, order: str) -> bytes:
    return value.to_bytes(4, order, signed=True)  # type: ignore[arg-type]


def rfh2(
    *folders: bytes,
    order: str = "little",
    codec: str = "ascii",
    version: int = 2,
    length: int | None = None,
    ccsid: int = 1208,
    name_value_ccsid: int = 1208,
) -> bytes:
    rest = b"".join(number(len(folder), order) + folder for folder in folders)
    return (
        "RFH ".encode(codec)
        + number(version, order)
        + number(36 + len(rest) if length is None else length, order)
        + number(546, order)
        + number(ccsid, order)
        + "MQSTR   ".encode(codec)
        + number(0, order)
        + number(name_value_ccsid, order)
        + rest
    )


MCD = b"<mcd><Msd>jms_text</Msd></mcd>  "
USR = b'<usr><Color>red</Color><Count dt="i4">5</Count></usr>   '


def tree_of(folder: Element) -> list[Any]:
    return [(child.key, tree_of(child) if child.children else child.value) for child in folder]


def read(data: bytes, encoding: int = 546, ccsid: int = 1208) -> Folder:
    return read_mqrfh2(data, 0, encoding, ccsid)[0]


def value_of(xml: str) -> Any:
    text = f"<usr>{xml}</usr>".encode()
    usr = read(rfh2(text)).first("usr")
    assert usr is not None
    return usr.children[0].value


FIXED = [
    ("Version", 2),
    ("Encoding", 546),
    ("CodedCharSetId", 1208),
    ("Format", "MQSTR   "),
    ("Flags", 0),
    ("NameValueCCSID", 1208),
]


@pytest.mark.parametrize(
    ("order", "codec", "encoding", "ccsid"),
    [
        ("little", "ascii", 546, 1208),
        ("big", "ascii", 273, 819),
        ("big", "cp500", 785, 500),
        ("little", "cp037", 546, 37),
    ],
)
def test_a_header_of_each_machine_reads_alike(order: str, codec: str, encoding: int, ccsid: int) -> None:
    data = rfh2(MCD, USR, order=order, codec=codec)
    folder, end, format_name, next_encoding, next_ccsid = read_mqrfh2(b"12" + data + b"body", 2, encoding, ccsid)
    assert (end, format_name, next_encoding, next_ccsid) == (2 + len(data), "MQSTR   ", 546, 1208)
    assert folder._children is None
    assert tree_of(folder) == [
        *FIXED,
        ("mcd", [("Msd", "jms_text")]),
        ("usr", [("Color", "red"), ("Count", [("dt", "i4")])]),
    ]
    count = folder.children[-1].children[1]
    assert count.value == 5
    assert count.children[0].kind == XMLNSC_ATTRIBUTE
    assert folder.render() == data


def test_a_hand_made_header_in_hexadecimal_reads_and_is_written_back() -> None:
    data = bytes.fromhex(
        "52464820 00000002 00000040 00000111 000001F4 4D51535452202020 00000000 000004B8"
        "00000018 3C7573723E3C613E78203C2F613E3C2F7573723E20202020"
    )
    folder = read(data, 273, 819)
    assert tree_of(folder) == [
        ("Version", 2),
        ("Encoding", 273),
        ("CodedCharSetId", 500),
        ("Format", "MQSTR   "),
        ("Flags", 0),
        ("NameValueCCSID", 1208),
        ("usr", [("a", "x ")]),
    ]
    folder.changed()
    # Written anew, it is padded only to a multiple of four.
    assert (
        folder.render() == data[:8] + bytes.fromhex("0000003C") + data[12:36] + bytes.fromhex("00000014") + data[40:60]
    )


def test_a_header_without_folders_is_36_bytes() -> None:
    folder = read(rfh2())
    assert tree_of(folder) == FIXED
    folder.changed()
    assert folder.render() == rfh2()


@for_each(
    ("xml", "value"),
    [
        ("<a>text</a>", "text"),
        ("<a> t </a>", " t "),
        ("<a></a>", ""),
        ("<a/>", ""),
        ("<a>&lt;&amp;&#233;</a>", "<&é"),
        ("<a><![CDATA[<x>]]></a>", "<x>"),
        ('<a dt="string">5</a>', "5"),
        ("<a dt='i1'>-128</a>", -128),
        ("<a dt='i2'>300</a>", 300),
        ("<a dt='i4'>-5</a>", -5),
        ("<a dt='i8'>9223372036854775807</a>", 9223372036854775807),
        ("<a dt='int'>7</a>", 7),
        ("<a dt='boolean'>1</a>", True),
        ("<a dt='boolean'>0</a>", False),
        ("<a dt='boolean'>TRUE</a>", True),
        ("<a dt='r4'>1.5</a>", 1.5),
        ("<a dt='r8'>-1e300</a>", -1e300),
        ("<a dt='bin.hex'>00ffAB</a>", b"\x00\xff\xab"),
        ("<a x:dt='i4'>1</a>", 1),
        ("<a xsi:nil='true'></a>", None),
    ],
)
def test_values_have_the_type_that_dt_says(xml: str, value: Any) -> None:
    found = value_of(xml)
    assert found == value
    assert type(found) is type(value)


@for_each(
    "xml",
    [
        "<a dt='i4'>x</a>",
        "<a dt='i4'></a>",
        "<a dt='i4'>1_0</a>",
        "<a dt='i1'>128</a>",
        "<a dt='i8'>9223372036854775808</a>",
        f"<a dt='i8'>{'9' * 5000}</a>",
        "<a dt='boolean'>2</a>",
        "<a dt='bin.hex'>0</a>",
        "<a dt='r8'>one</a>",
        "<a dt='date'>2020-01-01</a>",
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused(xml: str) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        value_of(xml)
    assert caught.value.path == "a"
    assert 40 <= caught.value.offset < 40 + 6000


@for_each(
    ("text", "offset"),
    [
        (b"<usr><a></usr>", 10),
        (b"<usr>", 5),
        (b"</r><r>", 4),
        (b"</usr>", 2),
        (b"<usr>&nothing;</usr>", 5),
        (b"text", 0),
        (b"<usr a=1></usr>", 7),
        (b"<!DOCTYPE a><usr/>", 2),
        (b"<usr>\xff</usr>", 5),
        (b"<usr>\0</usr>", 5),
    ],
)
def test_malformed_xml_is_told_with_its_place(text: bytes, offset: int) -> None:
    folder, *_ = read_mqrfh2(b"123" + rfh2(text), 3)
    with pytest.raises(MessageUnreadable) as caught:
        _ = folder.children
    assert caught.value.domain == "MQRFH2"
    # 3 bytes before the header, 36 fixed ones, 4 of length.
    assert abs(caught.value.offset - 43 - offset) <= 4
    assert folder.render() == rfh2(text)


def test_the_place_in_utf_16_is_counted_in_its_own_bytes() -> None:
    text = "<usr><a></usr>".encode("utf-16-be")
    with pytest.raises(MessageUnreadable) as caught:
        _ = read(rfh2(text, order="big", name_value_ccsid=1200), 273).children
    assert caught.value.offset == 40 + 2 * 10


@pytest.mark.parametrize(("order", "codec", "encoding"), [("big", "utf-16-be", 273), ("little", "utf-16-le", 546)])
def test_utf_16_folders_have_the_byte_order_of_the_header(order: str, codec: str, encoding: int) -> None:
    text = "<usr><Stadt>Zürich</Stadt></usr>".encode(codec)
    data = rfh2(text, order=order, name_value_ccsid=1200)
    folder = read(data, encoding)
    assert folder.get("usr", "Stadt") == "Zürich"
    folder.changed()
    assert folder.render() == data


def test_several_folders_in_one_piece_and_null_padding_are_understood() -> None:
    folder = read(rfh2(b"<a><x>1</x></a> <b><y>2</y></b>\0\0\0\0"))
    assert tree_of(folder)[6:] == [("a", [("x", "1")]), ("b", [("y", "2")])]


def test_groups_repetitions_and_attributes_keep_their_order() -> None:
    text = b'<mq_usr content="properties"><g><p>1</p><p>2</p></g></mq_usr>'
    folder = read(rfh2(text))
    assert tree_of(folder)[6:] == [
        ("mq_usr", [("content", "properties"), ("g", [("p", "1"), ("p", "2")])]),
    ]
    folder.changed()
    assert folder.render() == rfh2(text + b" " * 3)


@for_each(
    ("value", "xml"),
    [
        ("red", "<usr><a>red</a></usr>"),
        ("", "<usr><a></a></usr>"),
        ("<&>", "<usr><a>&lt;&amp;&gt;</a></usr>"),
        (5, '<usr><a dt="i4">5</a></usr>'),
        (1 << 40, '<usr><a dt="i8">1099511627776</a></usr>'),
        (True, '<usr><a dt="boolean">1</a></usr>'),
        (1.5, '<usr><a dt="r8">1.5</a></usr>'),
        (b"\xab", '<usr><a dt="bin.hex">AB</a></usr>'),
        (None, '<usr><a xsi:nil="true"></a></usr>'),
        (Decimal("1.50"), "<usr><a>1.50</a></usr>"),
    ],
)
def test_values_are_written_with_their_type(value: Any, xml: str) -> None:
    usr = Element("usr")
    usr.add("a", value)
    padded = xml.encode() + b" " * (-len(xml) % 4)
    assert write_mqrfh2([usr], 546, 1208)[40:] == padded


def test_folders_whose_readers_know_the_types_get_no_dt() -> None:
    jms = Element("jms")
    jms.add("Dlv", 2)
    assert write_mqrfh2([jms])[40:] == b"<jms><Dlv>2</Dlv></jms> "


def test_a_type_is_kept_as_long_as_the_value_fits() -> None:
    folder = read(rfh2(b"<usr><a dt='i2'>5</a></usr> "))
    element = folder.children[-1].children[0]
    element.set_value(6)
    assert b'<a dt="i2">6</a>' in folder.render()
    element.set_value(70_000)
    assert b'<a dt="i4">70000</a>' in folder.render()
    element.set_value("six")
    assert b"<a>six</a>" in folder.render()


@pytest.mark.parametrize("key", ["a b", "1a", "", "{ns}a", "a<", "a\n"])
def test_a_name_that_xml_has_not_is_refused(key: str) -> None:
    usr = Element("usr")
    usr.add(key, "x")
    with pytest.raises(MessageUnwritable):
        write_mqrfh2([usr])


@pytest.mark.parametrize("value", ["\0", "\x1b", "\ud800", 1 << 64, pytest.param(10**5000, id="huge"), object()])
def test_a_value_that_xml_has_not_is_refused_by_path(value: object) -> None:
    usr = Element("usr")
    usr.add("a", value)
    with pytest.raises(MessageUnwritable) as caught:
        write_mqrfh2([usr])
    assert caught.value.path == "MQRFH2.usr.a"


@pytest.mark.parametrize(
    ("data", "path", "offset"),
    [
        (rfh2(USR, length=35), "StrucLength", 8),
        (rfh2(USR, length=-1), "StrucLength", 8),
        (rfh2(USR, length=0), "StrucLength", 8),
        (rfh2(USR, length=1 << 30), "StrucLength", 8),
        (rfh2(USR, version=1), "Version", 4),
        (b"RFX " + rfh2(USR)[4:], "StrucId", 0),
    ],
)
def test_a_header_that_lies_is_refused(data: bytes, path: str, offset: int) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read(data)
    assert (caught.value.path, caught.value.offset) == (path, offset)


@pytest.mark.parametrize("length", [-1, -(1 << 31), 57, 1 << 30])
def test_a_folder_length_that_lies_is_refused(length: int) -> None:
    data = bytearray(rfh2(USR))
    data[36:40] = number(length, "little")
    with pytest.raises(MessageUnreadable) as caught:
        _ = read(bytes(data)).children
    assert (caught.value.path, caught.value.offset) == ("NameValueLength", 36)


def test_a_header_cut_at_any_byte_is_refused() -> None:
    data = rfh2(MCD, USR)
    for cut in range(len(data)):
        with pytest.raises(MessageUnreadable):
            read(data[:cut])


def test_a_length_that_leaves_less_than_a_number_is_refused() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        _ = read(rfh2(MCD, length=38)).children
    assert caught.value.path == "NameValueLength"


def test_elements_too_deep_are_refused_in_both_directions() -> None:
    with pytest.raises(MessageTooComplex):
        _ = read(rfh2(b"<a>" * 1000 + b"</a>" * 1000)).children
    top = Element("usr")
    inner = top
    for _ in range(500):
        inner = inner.add("a")
    with pytest.raises(MessageUnwritable):
        write_mqrfh2([top])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            b"<mcd><Msd>mrm</Msd><Set>S</Set><Type>T</Type><Fmt>F</Fmt></mcd>",
            {"Msd": "mrm", "Set": "S", "Type": "T", "Fmt": "F"},
        ),
        (b"<mcd><Msd>xml&amp;</Msd></mcd>", {"Msd": "xml&"}),
        (b'<mcd a="1"><Msd>xmlnsc</Msd></mcd>', {"a": "1", "Msd": "xmlnsc"}),
        (b"<!-- <mcd><Msd>mrm</Msd></mcd> --><mcd><Msd>json</Msd></mcd>", {"Msd": "json"}),
        (b"<usr><a>1</a></usr>", {}),
        (b"<mcd></mcd>", {}),
    ],
)
def test_mcd_tells_how_the_body_is_to_be_read(text: bytes, told: dict[str, str]) -> None:
    assert content_descriptor(read(rfh2(text))) == told
    loaded = read(rfh2(text))
    _ = loaded.children
    assert content_descriptor(loaded) == told


# --- message properties ------------------------------------------------------------------------

PROPERTIES: dict[str, Any] = {
    "Color": "red",
    "Count": 5,
    "Big": 1 << 40,
    "Rate": 1.5,
    "Urgent": True,
    "Key": b"\x01",
    "shop.item": "i",
    "shop.place.town": "Bern",
    "usr.group.x": 1,
    "odd..name": "o",
}


def origin(properties: dict[str, Any]) -> Origin:
    return Origin(Message(b"", properties=properties), "MQSTR", 546, 819)


def test_message_properties_show_as_a_header() -> None:
    folder = folder_of(origin(PROPERTIES))
    assert tree_of(folder) == [
        ("Version", 2),
        ("Encoding", 546),
        ("CodedCharSetId", 819),
        ("Format", "MQSTR   "),
        ("Flags", 0),
        ("NameValueCCSID", 1208),
        (
            "usr",
            [
                ("Color", "red"),
                ("Count", 5),
                ("Big", 1 << 40),
                ("Rate", 1.5),
                ("Urgent", True),
                ("Key", b"\x01"),
                ("group", [("x", 1)]),
                ("odd..name", "o"),
            ],
        ),
        ("shop", [("item", "i"), ("place", [("town", "Bern")])]),
    ]
    assert folder_of(origin(PROPERTIES)).peek(("usr", "Count")) == (True, 5)
    assert folder_of(origin(PROPERTIES)).peek(("usr", "group")) == (False, None)


def test_changed_properties_go_back_to_the_message() -> None:
    folder = folder_of(origin(PROPERTIES))
    assert properties_of(folder) == PROPERTIES
    usr = folder.first("usr")
    assert usr is not None
    usr.children[0].set_value("blue")
    usr.add("New", Decimal(3))
    usr.add("Gone", None)
    assert properties_of(folder) == PROPERTIES | {"Color": "blue", "New": 3.0}


def test_a_header_that_a_program_made_of_usr_alone_is_properties() -> None:
    folder = Folder(MQRFH2)
    folder.add("usr").add("Color", "red")
    assert properties_of(folder) == {"Color": "red"}
    folder.add("mcd").add("Msd", "xml")
    assert properties_of(folder) is None


def test_what_properties_cannot_say_stays_a_header() -> None:
    folder = Folder(MQRFH2)
    usr = folder.add("usr")
    usr.add("a", 1)
    usr.add("a", 2)
    assert properties_of(folder) is None
    assert properties_of(read(rfh2(USR))) is None


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
TEXT = st.text(
    st.characters(min_codepoint=32, exclude_categories=("Cs",), exclude_characters="\ufffe\uffff"), max_size=12
)
VALUES = (
    TEXT | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.binary(max_size=6) | st.floats(allow_nan=False)
)


@given(
    st.lists(st.tuples(NAMES, st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=4)), max_size=3),
    st.sampled_from([(546, 1208, 1208), (273, 819, 1208), (785, 500, 1208), (273, 1208, 1200), (546, 37, 1200)]),
)
@settings(max_examples=80)
def test_written_headers_read_as_they_were(folders: list[Any], machine: tuple[int, int, int]) -> None:
    encoding, ccsid, name_value_ccsid = machine
    children = [Element("NameValueCCSID", name_value_ccsid), Element("Version", 2)]
    for name, items in folders:
        element = Element(name if name not in ("mcd", "jms", "psc", "pscr", "mqps", "Version") else "usr")
        for key, value in items:
            element.add(key, value)
        children.append(element)
    data = write_mqrfh2(children, encoding, ccsid)
    assert len(data) % 4 == 0
    folder, end, *_ = read_mqrfh2(data, 0, encoding, ccsid)
    assert end == len(data)
    found = [[(leaf.key, leaf.value, type(leaf.value)) for leaf in child] for child in folder.children[6:]]
    assert found == [[(leaf.key, leaf.value, type(leaf.value)) for leaf in child] for child in children[2:]]
    folder.changed()
    assert folder.render() == data


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_properties_survive_a_tree_that_was_changed_and_changed_back(properties: dict[str, Any]) -> None:
    folder = folder_of(origin(properties))
    _ = folder.children
    folder.changed(structure=True)
    assert properties_of(folder) == properties


@given(st.binary(max_size=80))
@settings(max_examples=150)
def test_rubbish_in_folders_is_read_or_refused_with_an_error_of_ours(rubbish: bytes) -> None:
    for text in (rubbish, b"<usr>" + rubbish + b"</usr>"):
        for data in (rfh2(text), rfh2(text, name_value_ccsid=1200), rfh2(b"") + rubbish):
            try:
                _ = read(data).children
            except EntrepotError as error:
                assert isinstance(error, MessageUnreadable)
                assert 0 <= error.offset <= len(data)


# --- one tag without the others ----------------------------------------------------------------


TAGS = b"<usr><colour>red</colour><shape>round</shape><empty></empty></usr> "
PLAIN_HEADER = rfh2(b"<jms><Dst>queue:///A</Dst></jms> ", TAGS, b"<usr><last>1</last></usr>  ")


def peeked(body: bytes, *keys: str, encoding: int = 546) -> tuple[bool, Any]:
    return MQRFH2.peek(Folder(MQRFH2, body, encoding=encoding), keys)


def test_a_tag_of_a_plain_header_is_read_without_the_others() -> None:
    assert peeked(PLAIN_HEADER, "usr", "colour") == (True, "red")
    assert peeked(PLAIN_HEADER, "jms", "Dst") == (True, "queue:///A")
    assert peeked(PLAIN_HEADER, "usr", "empty") == (True, "")
    assert peeked(PLAIN_HEADER, "usr", "last") == (True, None)  # The first usr has none.
    assert peeked(PLAIN_HEADER, "psc", "Command") == (True, None)
    assert peeked(rfh2(TAGS, order="big"), "usr", "shape", encoding=273) == (True, "round")


def test_a_header_that_is_not_plain_is_read_as_a_whole() -> None:
    for folder in (
        USR,
        b"<usr><a>&lt;</a></usr>",
        "<usr><a>\u00e9</a></usr>".encode(),
        b"<usr/>",
        b"<usr><a>1</b></usr>",
    ):
        assert peeked(rfh2(TAGS, folder), "usr", "colour") == (False, None)
    assert peeked(rfh2(TAGS, name_value_ccsid=819), "usr", "colour") == (False, None)
    assert peeked(PLAIN_HEADER[:-1], "usr", "colour") == (False, None)
    assert peeked(PLAIN_HEADER, "Version", "colour") == (False, None)


@settings(max_examples=200)
@given(
    at=st.integers(0, len(PLAIN_HEADER) - 1), byte=st.integers(0, 255), keys=st.sampled_from(["colour", "empty", "x"])
)
def test_what_is_peeked_is_what_the_whole_header_says(at: int, byte: int, keys: str) -> None:
    body = PLAIN_HEADER[:at] + bytes((byte,)) + PLAIN_HEADER[at + 1 :]
    known, value = peeked(body, "usr", keys)
    if known:
        folder = Folder(MQRFH2, body)
        assert folder.get("usr", keys) == value
