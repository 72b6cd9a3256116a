# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import EntrepotError, MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.models.element_types import VALUE
from entrepot.models.mime import MIME, parameters
from entrepot.models.tree import Element, Folder
from folding import for_each

TWO_PARTS = (
    b"MIME-Version: 1.0\r\n"
    b'Content-Type: Multipart/Related; boundary="MIME_boundary";\r\n type=text/xml\r\n'
    b"\r\n"
    b"Optional preamble\r\n"
    b"--MIME_boundary\r\n"
    b"Content-Type: text/xml; charset=UTF-8\r\n"
    b"Content-ID: <root>\r\n"
    b"\r\n"
    b"<a>1</a>\r\n"
    b"--MIME_boundary  \r\n"
    b"\r\n"
    b"\x00\xff\r\n\r\n"
    b"--MIME_boundary--\r\n"
    b"Epilogue"
)


def folder_of(body: bytes) -> Folder:
    return Folder(MIME, body)


def tree_of(element: Element) -> list[Any]:
    return [(child.key, tree_of(child) if child.children else child.value) for child in element]


def data(content: bytes) -> tuple[str, Any]:
    return ("Data", [("BLOB", [("BLOB", content)])])


def test_a_message_of_two_parts_is_a_tree() -> None:
    folder = folder_of(TWO_PARTS)
    assert tree_of(folder) == [
        ("MIME-Version", "1.0"),
        ("Content-Type", 'Multipart/Related; boundary="MIME_boundary"; type=text/xml'),
        (
            "Parts",
            [
                ("", "Optional preamble"),
                (
                    "Part",
                    [("Content-Type", "text/xml; charset=UTF-8"), ("Content-ID", "<root>"), data(b"<a>1</a>")],
                ),
                ("Part", [data(b"\x00\xff\r\n")]),
                ("", "Epilogue"),
            ],
        ),
    ]
    parts = folder.first("Parts")
    assert parts is not None
    assert parts.children[0].kind == VALUE
    assert folder.render() == TWO_PARTS


def test_a_message_of_one_part_has_data_at_the_top() -> None:
    folder = folder_of(b"Content-Type: text/plain\r\nX: a\r\nx: b\r\n\r\nhello\r\n")
    assert tree_of(folder) == [("Content-Type", "text/plain"), ("X", "a, b"), data(b"hello\r\n")]


def test_bare_line_feeds_are_understood() -> None:
    body = b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo\n--b--\n"
    assert tree_of(folder_of(body))[1:] == [("Parts", [("Part", [data(b"one")]), ("Part", [data(b"two")])])]


def test_multiparts_lie_inside_each_other_even_if_one_boundary_begins_like_the_other() -> None:
    body = (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
        b"Content-Type: multipart/mixed; boundary=b2\r\n\r\n--b2\r\n\r\nx\r\n--b2--\r\n\r\n--b--\r\n"
    )
    folder = folder_of(body)
    inner = [("Content-Type", "multipart/mixed; boundary=b2"), ("Parts", [("Part", [data(b"x")])])]
    assert tree_of(folder)[1:] == [("Parts", [("Part", inner)])]
    folder.changed()
    assert folder.render() == body


def test_a_changed_part_is_written_and_the_others_stay() -> None:
    folder = folder_of(TWO_PARTS)
    blob = folder.children[2].children[1].children[2].children[0].children[0]
    blob.set_value(b"<b/>")
    assert folder.render() == (
        b"MIME-Version: 1.0\r\n"
        b'Content-Type: Multipart/Related; boundary="MIME_boundary"; type=text/xml\r\n'
        b"\r\nOptional preamble\r\n"
        b"--MIME_boundary\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-ID: <root>\r\n\r\n<b/>\r\n"
        b"--MIME_boundary\r\n\r\n\x00\xff\r\n\r\n"
        b"--MIME_boundary--\r\nEpilogue"
    )


def test_a_tree_that_a_program_made_is_written() -> None:
    folder = Folder(MIME)
    folder.add("Content-Type", "text/plain")
    folder.add("Data").add("BLOB").add("BLOB", b"hello")
    assert folder.render() == b"Content-Type: text/plain\r\n\r\nhello"


def test_data_may_hold_a_folder_of_another_domain() -> None:
    folder = Folder(MIME)
    folder.add("Content-Type", "text/plain")
    folder.add("Data").append(Folder(MIME, b"Content-Type: a/b\r\n\r\nx"))
    assert folder.render() == b"Content-Type: text/plain\r\n\r\nContent-Type: a/b\r\n\r\nx"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text/xml", {}),
        ("a/b; boundary=x; Type=text/xml", {"boundary": "x", "type": "text/xml"}),
        ('a/b;boundary="a;b \\" c";x=1', {"boundary": 'a;b " c', "x": "1"}),
        ('a/b; x="; boundary=no"; boundary=yes', {"x": "; boundary=no", "boundary": "yes"}),
    ],
)
def test_parameters_of_a_header(value: str, expected: dict[str, str]) -> None:
    assert parameters(value) == expected


@for_each(
    ("body", "offset"),
    [
        (b"", 0),
        (b"hello", 0),
        (b"X: 1\r\n\r\n", 0),
        (b"Content-Type: a/b\r\nno header\r\n\r\n", 19),
        (b"Content-Type: a/b\r\nX: \xff\r\n\r\n", 22),
        (b"Content-Type: multipart/mixed\r\n\r\n", 0),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\nx", 46),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx", 53),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nno\r\n--b--", 50),
    ],
)
def test_what_is_no_mime_is_refused_with_its_place(body: bytes, offset: int) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        _ = folder_of(body).children
    assert caught.value.offset == offset


def test_too_many_multiparts_inside_each_other_are_refused() -> None:
    body = b""
    for depth in range(40):
        body += b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (depth, depth)
    for depth in reversed(range(40)):
        body += b"\r\n--b%d--" % depth
    with pytest.raises(MessageTooComplex):
        _ = folder_of(body).children


def made(content_type: str, *parts: bytes) -> Folder:
    folder = Folder(MIME)
    folder.add("Content-Type", content_type)
    holder = folder.add("Parts")
    for content in parts:
        holder.add("Part").add("Data", content)
    return folder


@for_each(
    "folder",
    [
        Folder(MIME),
        made("multipart/mixed", b"x"),
        made("text/plain; boundary=b", b"x"),
        made("multipart/mixed; boundary=b"),
        made("multipart/mixed; boundary=b", b"--b"),
        made("multipart/mixed; boundary=b", b"x\r\n--b--\r\n"),
        made("multipart/mixed; boundary=b\r\nX: injected", b"x"),
        made("multipart/mixed; boundary=bé", b"x"),
    ],
)
def test_a_tree_that_is_no_mime_is_refused(folder: Folder) -> None:
    with pytest.raises(MessageUnwritable):
        folder.render()


def test_text_in_data_and_two_contents_are_refused() -> None:
    folder = Folder(MIME)
    folder.add("Content-Type", "text/plain")
    element = folder.add("Data", "text")
    with pytest.raises(MessageUnwritable):
        folder.render()
    element.set_value(b"text")
    folder.add("Data", b"again")
    with pytest.raises(MessageUnwritable):
        folder.render()


HEADERS = st.dictionaries(
    st.from_regex(r"X-[A-Za-z]{1,6}", fullmatch=True).map(str.capitalize),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=10),
    max_size=3,
)


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=40)), min_size=1, max_size=4), st.text("ab\n ", max_size=8))
@settings(max_examples=80)
def test_written_parts_read_as_they_were(parts: list[Any], preamble: str) -> None:
    folder = Folder(MIME)
    folder.add("Content-Type", "multipart/mixed; boundary=edge-of-a-part")
    holder = folder.add("Parts")
    if preamble:
        holder.add("", preamble, VALUE)
    for headers, content in parts:
        part = holder.add("Part")
        for name, value in headers.items():
            part.add(name, value)
        part.add("Data").add("BLOB").add("BLOB", content)
    written = folder.render()
    again = folder_of(written)
    assert tree_of(again) == tree_of(folder)
    again.changed()
    assert again.render() == written


@given(
    st.binary(max_size=120),
    st.lists(st.sampled_from([b"--b\r\n", b"--b--", b"\r\n", b"X: 1\r\n", b" ", b"a"]), max_size=20),
)
@settings(max_examples=150)
def test_rubbish_is_read_or_refused_with_an_error_of_ours(rubbish: bytes, pieces: list[bytes]) -> None:
    head = b"Content-Type: multipart/mixed; boundary=b\r\n"
    for body in (rubbish, head + rubbish, head + b"".join(pieces)):
        try:
            _ = folder_of(body).children
        except EntrepotError as error:
            assert isinstance(error, MessageUnreadable)
            assert 0 <= error.offset <= len(body)
