# SPDX-License-Identifier: Apache-2.0
"""What is not looked at is not made, what is not changed stays as it was, and elements keep their identity."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.errors.flows import MessageUnwritable
from entrepot.models.domains import find_domain
from entrepot.models.element_types import XMLNSC_FIELD
from entrepot.models.tree import Element, Folder
from entrepot.models.xml.elements import FOUND_MAX, SMALL
from folding import for_each

DOMAINS = ["XMLNSC", "XMLNS", "XML"]
BODY = b'<a k="v"><b>1</b><c><d>2</d><d>3</d></c><b>4</b></a>'


def folder(body: bytes, domain: str = "XMLNSC") -> Folder:
    found = find_domain(domain)
    assert found is not None
    return Folder(found, body)


def at(place: Element, *keys: str) -> Element:
    for key in keys:
        child = place.first(key)
        assert child is not None
        place = child
    return place


@pytest.mark.parametrize("domain", DOMAINS)
def test_unchanged_bytes_come_back_as_the_same_object(domain: str) -> None:
    body = b"<?xml version='1.0'?>\n<a  x = '1' ><b></b>&#65;<!-- c --></a>\n"
    read = folder(body, domain)
    assert read.render() is body
    assert [child.copy() for child in read.children]
    assert read.render() is body
    assert read.copy().render() is body


def test_an_element_found_alone_is_the_same_in_its_level() -> None:
    place = at(folder(BODY.replace(b"</a>", b"<x/>" * SMALL + b"</a>")), "a")
    found = at(place, "b")
    missing = place.first("nothing")
    assert place._children is None
    assert missing is None
    assert place.first("b") is found
    assert [child.key for child in place.children] == ["k", "b", "c", "b", *["x"] * SMALL]
    assert place.children[1] is found
    assert place.children[3] is not found
    assert place.first("b") is found
    assert place.all("b")[0] is found
    assert found.parent is place


def test_an_attribute_is_found_before_an_element_of_its_name() -> None:
    place = at(folder(b'<a b="1"><b>2</b></a>'), "a")
    assert place.first("b") is place.children[0]
    assert at(place, "b").value == "1"


@for_each("key", ["*", "{*}b", "{", "{}b", "", "{http://www.w3.org/2000/xmlns/}p", "b*", "xmlns"])
@for_each("body", [b"<a><b>1</b></a>", b'<a xmlns:q="n"><b>1</b></a>'])
@for_each("domain", DOMAINS)
def test_names_that_lxml_reads_as_patterns_find_nothing(domain: str, body: bytes, key: str) -> None:
    assert at(folder(body, domain), "a").first(key) is None


def test_many_searches_load_the_level() -> None:
    body = b"<a>" + b"".join(b"<f%d>%d</f%d>" % (n, n, n) for n in range(30)) + b"</a>"
    place = at(folder(body), "a")
    found = [at(place, f"f{n}") for n in range(FOUND_MAX)]
    assert place._children is None
    assert at(place, "f29").value == "29"
    assert place._children is not None
    assert place.children[:FOUND_MAX] == found


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_changed_value_keeps_everything_else(domain: str) -> None:
    read = folder(BODY, domain)
    at(read, "a", "c", "d").set_value("<5>")
    assert not read.restructured
    assert read.render() == BODY.replace(b"<d>2<", b"<d>&lt;5&gt;<")


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_changed_attribute_keeps_everything_else(domain: str) -> None:
    read = folder(BODY, domain)
    at(read, "a", "k").set_value('"')
    assert read.render() == BODY.replace(b'"v"', b'"&quot;"')


def test_values_of_any_type_are_put_back() -> None:
    read = folder(BODY)
    at(read, "a", "b").set_value(44.72)
    at(read, "a", "c", "d").set_value(None)
    assert read.render() == BODY.replace(b"<b>1<", b"<b>4.472E+1<").replace(b"<d>2</d>", b"<d/>")
    at(read, "a", "b").set_value(True)
    assert read.render() == BODY.replace(b"<b>1<", b"<b>true<").replace(b"<d>2</d>", b"<d/>")


def test_a_value_on_a_folder_is_written_before_its_children() -> None:
    read = folder(BODY)
    at(read, "a", "c").set_value("x")
    assert read.render() == BODY.replace(b"<c>", b"<c>x")


def test_the_declaration_is_kept_when_a_value_changes() -> None:
    read = folder(b"<?xml version='1.0' encoding='utf-8'?>\n<a><b>1</b></a>")
    at(read, "a", "b").set_value("\xe9")
    assert read.render() == b'<?xml version="1.0" encoding="utf-8"?><a><b>\xc3\xa9</b></a>'
    at(read, "XmlDeclaration", "Version").set_value("1.1")
    assert read.render().startswith(b'<?xml version="1.1" encoding="utf-8"?>')


def test_changed_values_and_changed_structure_write_the_same() -> None:
    body = b'<p:a xmlns:p="n" x="1"><p:b>1</p:b><c xmlns="m">t</c><d/></p:a>'
    values, structure = folder(body), folder(body)
    for read in (values, structure):
        at(read, "{n}a", "{n}b").set_value("2")
    structure.children[0].changed(structure=True)
    assert values.render() == structure.render() == body.replace(b">1<", b">2<")


def test_a_cdata_field_keeps_its_section_when_its_value_changes() -> None:
    read = folder(b"<a><b><![CDATA[<]]></b></a>")
    at(read, "a", "b").set_value("]]>")
    assert read.render() == b"<a><b><![CDATA[]]]]><![CDATA[>]]></b></a>"


def test_a_value_that_xml_cannot_say_is_refused_with_its_path() -> None:
    read = folder(BODY)
    at(read, "a", "c", "d").set_value("\x00")
    with pytest.raises(MessageUnwritable) as caught:
        read.render()
    assert caught.value.path == "XMLNSC.a.c.d[1]"
    assert read.body is BODY


@pytest.mark.parametrize("domain", DOMAINS)
def test_elements_come_and_go(domain: str) -> None:
    read = folder(BODY, domain)
    place = at(read, "a")
    place.remove(at(place, "b"))
    place.add("e", 5)
    place.insert(1, Element("f", "6"))
    assert read.restructured
    assert read.render() == b'<a k="v"><f>6</f><c><d>2</d><d>3</d></c><b>4</b><e>5</e></a>'


def test_what_was_found_before_everything_was_cleared_is_gone() -> None:
    read = folder(BODY)
    place = at(read, "a")
    found = at(place, "b")
    place.clear()
    assert found.parent is None
    assert place.first("b") is None
    assert read.render() == b"<a/>"


def test_a_renamed_element_is_found_and_written_under_its_new_name() -> None:
    read = folder(BODY)
    place = at(read, "a")
    at(place, "c").rename("z")
    assert place.first("c") is None
    assert at(place, "z", "d").value == "2"
    assert read.render() == BODY.replace(b"<c>", b"<z>").replace(b"</c>", b"</z>")


def test_a_renamed_folder_that_nobody_looked_into_is_written_under_its_new_name() -> None:
    read = folder(BODY)
    at(read, "a", "c").rename("z")
    assert b"<z><d>2</d><d>3</d></z>" in read.render()


def test_a_subtree_is_copied_with_nothing_shared() -> None:
    read = folder(BODY)
    twin = at(read, "a", "c").copy()
    assert twin.parent is None
    at(twin, "d").set_value("9")
    assert at(read, "a", "c", "d").value == "2"
    assert read.render() is BODY


def test_a_subtree_that_was_moved_is_written_where_it_stands() -> None:
    source, target = folder(BODY), folder(b"<x><y/></x>")
    moved = at(source, "a", "c")
    at(source, "a").remove(moved)
    at(target, "x").append(moved)
    assert source.render() == b'<a k="v"><b>1</b><b>4</b></a>'
    assert target.render() == b"<x><y/><c><d>2</d><d>3</d></c></x>"
    at(moved, "d").set_value("8")
    assert target.render() == b"<x><y/><c><d>8</d><d>3</d></c></x>"


def test_a_copy_of_a_changed_folder_has_the_change() -> None:
    read = folder(BODY)
    at(read, "a", "b").set_value("7")
    twin = read.copy()
    assert twin.render() == BODY.replace(b"<b>1<", b"<b>7<")
    at(twin, "a", "b").set_value("8")
    assert at(read, "a", "b").value == "7"


def test_replacing_the_content_of_a_lazy_element_forgets_what_it_had() -> None:
    read = folder(BODY)
    place = at(read, "a", "c")
    place.replace_content(Element("other", "text"))
    assert read.render() == BODY.replace(b"<c><d>2</d><d>3</d></c>", b"<c>text</c>")


def test_kinds_of_the_old_domains_are_translated() -> None:
    source, target = folder(BODY, "XML"), folder(b"<x/>")
    at(target, "x").replace_content(at(source, "a"))
    assert target.render() == b'<x k="v"><b>1</b><c><d>2</d><d>3</d></c><b>4</b></x>'


def test_a_failed_parse_leaves_the_folder_unloaded() -> None:
    read = folder(b"<a>")
    for _ in range(2):
        with pytest.raises(Exception, match="D01"):
            read.first("a")
    assert read.render() == b"<a>"


def test_mixed_text_around_a_found_element_stays() -> None:
    read = folder(b"<a>x<b>1</b>y<!--c--><b>2</b>z</a>", "XMLNS")
    at(read, "a", "b").set_value("3")
    assert read.render() == b"<a>x<b>3</b>y<!--c--><b>2</b>z</a>"
    at(read, "a").add("c", 4)
    assert read.render() == b"<a>x<b>3</b>y<!--c--><b>2</b>z<c>4</c></a>"


def test_text_content_of_a_mixed_element_can_change() -> None:
    read = folder(b"<a>x<b>1</b>y</a>", "XMLNS")
    at(read, "a").children[0].set_value("&")
    assert read.render() == b"<a>&amp;<b>1</b>y</a>"


def test_a_leaf_can_get_children() -> None:
    read = folder(BODY)
    leaf: Any = at(read, "a", "b")
    assert leaf.kind == XMLNSC_FIELD
    leaf.add("x", 1)
    assert read.render() == BODY.replace(b"<b>1</b>", b"<b>1<x>1</x></b>", 1)


def test_a_folder_whose_kind_changed_keeps_its_children() -> None:
    read = folder(BODY)
    at(read, "a", "c").set_kind(XMLNSC_FIELD)
    assert read.render() == BODY
    assert len(at(read, "a", "c").children) == 2


def test_what_changes_while_an_element_is_taken_out_is_written_when_it_is_back() -> None:
    read = folder(BODY)
    place = at(read, "a")
    taken = at(place, "c")
    place.remove(taken)
    at(taken, "d").set_value("9")
    place.append(taken)
    assert read.render() == b'<a k="v"><b>1</b><b>4</b><c><d>9</d><d>3</d></c></a>'


def test_what_changes_after_everything_was_cleared_is_written_when_it_is_back() -> None:
    read = folder(BODY)
    place = at(read, "a")
    taken = at(place, "c")
    place.clear()
    at(taken, "d").set_value("9")
    at(folder(b"<x><y/></x>"), "x").append(taken)
    place.append(taken)
    assert read.render() == b"<a><c><d>9</d><d>3</d></c></a>"


@pytest.mark.parametrize("first", [True, False])
def test_a_value_set_before_or_after_an_element_came_is_written(first: bool) -> None:
    read = folder(BODY)
    place = at(read, "a")
    if first:
        at(place, "c", "d").set_value("9")
    place.add("n", 1)
    if not first:
        at(place, "c", "d").set_value("9")
    assert read.render() == BODY.replace(b"<d>2<", b"<d>9<").replace(b"</a>", b"<n>1</n></a>")
    at(place, "c", "d").set_value("8")
    assert b"<d>8</d><d>3</d>" in read.render()
