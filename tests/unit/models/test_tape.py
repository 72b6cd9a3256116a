# SPDX-License-Identifier: Apache-2.0
"""What is particular to the tape (src/entrepot/compiled/tape.pyx); tests/fuzz/documents.py compares it with lxml."""

from __future__ import annotations

import subprocess
import sys

import pytest

from entrepot.compiled import compiled
from entrepot.errors import MessageTooComplex
from entrepot.models.tree import Element, Folder
from entrepot.models.tree_state import COPIES
from entrepot.models.xml import XML, XMLNSC

_tape = compiled("tape")

pytestmark = pytest.mark.skipif(_tape is None, reason="there is no compiled tape")


def document(body: bytes) -> Element:
    return Folder(XMLNSC, body).children[-1]


def is_taped(body: bytes) -> bool:
    return isinstance(document(body), _tape.TapeElement)


def at(element: Element, *keys: str) -> Element:
    for key in keys:
        found = element.first(key)
        assert found is not None, key
        element = found
    return element


def test_plain_documents_are_taped_and_others_are_left_to_lxml() -> None:
    for body in (
        b"<a/>",
        b'<?xml version="1.0" encoding="UTF-8"?>\n<a x="1"><b>&lt;&#65;</b>\n</a>\n',
        "<a>é</a>".encode(),
        b"<a>" * 200 + b"</a>" * 200,
    ):
        assert is_taped(body), body
    for body in (
        b'<a xmlns="u"/>',
        b"<p:a xmlns:p='u'/>",
        b"<a><![CDATA[x]]></a>",
        b"<a><!-- c --></a>",
        b"<a>x<b/></a>",
        b"<a>\t\r</a>",
        b"<a>\n\rb</a>",
        '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>'.encode("latin-1"),
    ):
        assert not is_taped(body), body


def test_a_document_that_is_too_deep_is_refused_as_without_a_tape() -> None:
    with pytest.raises(MessageTooComplex):
        document(b"<a>" * 300 + b"</a>" * 300)


def test_what_was_not_looked_at_is_copied_as_it_came() -> None:
    folder = Folder(XMLNSC, b"<a><b>&amp;</b><c><d>1</d><e>2</e></c></a>")
    at(folder, "a", "c", "e").set_value("<3>")
    assert folder.render() == b"<a><b>&amp;</b><c><d>1</d><e>&lt;3&gt;</e></c></a>"


def test_what_is_not_as_the_writer_writes_it_is_written_anew() -> None:
    folder = Folder(XMLNSC, b"<a>\n <b x = '1'  y=\"it's\">&quot;</b>\n <c></c><d>&gt;></d></a>")
    at(folder, "a").add("e", 5)
    assert folder.render() == b'<a><b x="1" y="it\'s">"</b><c/><d>&gt;&gt;</d><e>5</e></a>'


def test_white_space_between_elements_stays_where_the_domain_keeps_it() -> None:
    folder = Folder(XML, b"<a>\n <b>1</b>\n</a>")
    at(folder, "a", "b").set_value("2")
    assert folder.render() == b"<a>\n <b>2</b>\n</a>"


def test_a_copy_of_a_part_stands_for_the_same_place_until_one_of_them_changes() -> None:
    folder = Folder(XMLNSC, b"<a><b><c>1</c></b></a>")
    part = at(folder, "a", "b")
    twin = part.copy()
    at(twin, "c").set_value("2")
    assert at(part, "c").value == "1"
    at(folder, "a").append(twin)
    assert folder.render() == b"<a><b><c>1</c></b><b><c>2</c></b></a>"


def test_a_copy_is_paid_for_as_if_each_of_its_elements_had_been_made() -> None:
    part = document(b"<a>" + b"<b/>" * 50 + b"</a>")
    before = COPIES.left
    part.copy()
    assert COPIES.left in (before - 51, before - 51 + 10_000)


def test_a_changed_value_survives_a_copy_of_what_lies_above() -> None:
    folder = Folder(XMLNSC, b"<a><b><c>1</c><d>2</d></b></a>")
    at(folder, "a", "b", "c").set_value("9")
    at(folder, "a").append(at(folder, "a", "b").copy())
    assert folder.render() == b"<a><b><c>9</c><d>2</d></b><b><c>9</c><d>2</d></b></a>"


def test_a_renamed_element_is_found_under_its_new_name_only() -> None:
    place = document(b"<a><b>1</b><c>2</c></a>")
    at(place, "b").rename("z")
    assert place.first("b") is None
    assert at(place, "z").value == "1"


def test_a_body_that_is_read_again_right_away_has_elements_of_its_own() -> None:
    body = b"<a><b>1</b></a>"
    one, other = document(body), document(body)
    at(one, "b").set_value("2")
    assert at(other, "b").value == "1"


def test_more_names_than_a_process_keeps_are_known_to_their_document() -> None:
    program = """
from entrepot.models.tree import Folder
from entrepot.models.xml import XMLNSC
body = b"<a>" + b"".join(b"<n%d>%d</n%d>" % (n, n, n) for n in range(20_000)) + b"</a>"
for _ in range(2):
    place = Folder(XMLNSC, bytes(bytearray(body))).children[0]
    assert type(place).__name__ == "TapeElement"
    assert place.first("n19999").value == "19999" and place.first("n1").value == "1"
    assert [child.key for child in place.children] == [f"n{n}" for n in range(20_000)]
last = Folder(XMLNSC, b"<n7><late>1</late><n19999>2</n19999></n7>").children[0]
assert last.first("late").value == "1" and last.first("n19999").value == "2" and last.first("n5") is None
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
