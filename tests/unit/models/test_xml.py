# SPDX-License-Identifier: Apache-2.0
"""Known answers: which tree a body gives, and which bytes a tree gives."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from entrepot.errors.flows import MessageUnreadable, MessageUnwritable
from entrepot.models.code_pages import codec_of
from entrepot.models.domains import find_domain
from entrepot.models.element_types import (
    NAME,
    VALUE,
    XML_ATTRIBUTE,
    XML_CDATA,
    XML_COMMENT,
    XML_CONTENT,
    XML_DECLARATION,
    XML_ENCODING,
    XML_NAMESPACE,
    XML_PROCESSING_INSTRUCTION,
    XML_VERSION,
    XMLNSC_ATTRIBUTE,
    XMLNSC_CDATA_FIELD,
    XMLNSC_DECLARATION,
    XMLNSC_FIELD,
    XMLNSC_NAMESPACE,
    XMLNSC_SINGLE_ATTRIBUTE,
)
from entrepot.models.tree import Element, Folder
from folding import for_each

FOLDER = NAME
INSTRUCTION = XML_PROCESSING_INSTRUCTION
XMLNS = "{http://www.w3.org/2000/xmlns/}"
NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"


def folder(body: bytes | None, domain: str = "XMLNSC", **settings: Any) -> Folder:
    found = find_domain(domain)
    assert found is not None
    return Folder(found, body, **settings)


def shape(element: Element) -> Any:
    """(name, kind, value, children ...)"""
    return (element.key, element.kind, element.value, *(shape(child) for child in element.children))


def tree(body: bytes, domain: str = "XMLNSC", **settings: Any) -> list[Any]:
    return [shape(child) for child in folder(body, domain, **settings).children]


def made(domain: str, *children: Element) -> Folder:
    new = folder(None, domain)
    for child in children:
        new.append(child)
    return new


def element(key: str, value: Any = None, *children: Element, kind: int = NAME) -> Element:
    new = Element(key, value, kind)
    for child in children:
        new.append(child)
    return new


# --- XMLNSC, reading ------------------------------------------------------------------------------


def test_fields_have_values_and_folders_have_children() -> None:
    assert tree(b"<order><id>7</id><line><sku>A</sku></line></order>") == [
        (
            "order",
            FOLDER,
            None,
            ("id", XMLNSC_FIELD, "7"),
            ("line", FOLDER, None, ("sku", XMLNSC_FIELD, "A")),
        )
    ]


@pytest.mark.parametrize("body", [b"<a><b/></a>", b"<a><b></b></a>"])
@pytest.mark.parametrize("domain", ["XMLNSC", "XMLNS", "XML"])
def test_an_empty_element_is_an_empty_string(domain: str, body: bytes) -> None:
    assert folder(body, domain).get("a", "b") == ""


def test_white_space_in_a_field_is_its_value() -> None:
    assert folder(b"<a><b>  </b></a>").get("a", "b") == "  "


def test_attributes_stand_before_elements() -> None:
    assert tree(b'<a x="1"><x>2</x></a>') == [
        ("a", FOLDER, None, ("x", XMLNSC_ATTRIBUTE, "1"), ("x", XMLNSC_FIELD, "2"))
    ]


def test_a_field_may_have_attributes() -> None:
    assert tree(b'<a x="1">text</a>') == [("a", XMLNSC_FIELD, "text", ("x", XMLNSC_ATTRIBUTE, "1"))]


def test_xmlnsc_drops_comments_instructions_and_text_between_elements() -> None:
    body = b"<!-- c --><a>\n <b>1<!-- in -->2</b><?pi x?>\n text <c/></a><!-- end -->"
    assert tree(body) == [("a", FOLDER, None, ("b", XMLNSC_FIELD, "12"), ("c", XMLNSC_FIELD, ""))]


def test_a_cdata_section_makes_a_cdata_field() -> None:
    assert tree(b"<a><b><![CDATA[<&>]]></b><c>[CDATA[ no</c></a>") == [
        ("a", FOLDER, None, ("b", XMLNSC_CDATA_FIELD, "<&>"), ("c", XMLNSC_FIELD, "[CDATA[ no"))
    ]


def test_character_references_and_the_five_entities_are_resolved() -> None:
    assert folder(b"<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x20AC;</a>").get("a") == "<>&\"'A\u20ac"


def test_names_have_their_namespace_and_declarations_are_in_the_tree() -> None:
    assert tree(b'<p:a xmlns="u" xmlns:p="v" p:x="1" y="2"><b/><c xmlns=""/></p:a>') == [
        (
            "{v}a",
            FOLDER,
            None,
            ("xmlns", XMLNSC_NAMESPACE, "u"),
            (XMLNS + "p", XMLNSC_NAMESPACE, "v"),
            ("{v}x", XMLNSC_ATTRIBUTE, "1"),
            ("y", XMLNSC_ATTRIBUTE, "2"),
            ("{u}b", XMLNSC_FIELD, ""),
            ("c", XMLNSC_FIELD, "", ("xmlns", XMLNSC_NAMESPACE, "")),
        )
    ]


def test_a_namespace_declared_again_with_another_meaning_is_in_the_tree() -> None:
    assert tree(b'<p:a xmlns:p="v"><p:b xmlns:p="w"/></p:a>')[0][4] == (
        "{w}b",
        XMLNSC_FIELD,
        "",
        (XMLNS + "p", XMLNSC_NAMESPACE, "w"),
    )


@pytest.mark.parametrize(("said", "value"), [("true", None), ("1", None), ("false", ""), ("0", "")])
def test_xsi_nil_is_no_value_and_an_attribute(said: str, value: str | None) -> None:
    body = f'<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><b xsi:nil="{said}"/></a>'
    assert tree(body.encode())[0][4] == ("b", XMLNSC_FIELD, value, (NIL, XMLNSC_ATTRIBUTE, said))


def test_xmlns_and_xml_treat_xsi_nil_like_any_attribute() -> None:
    body = b'<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><b xsi:nil="true"/></a>'
    assert folder(body, "XMLNS").get("a", "b") == ""


def test_the_declaration_is_the_first_element() -> None:
    assert tree(b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<a/>') == [
        (
            "XmlDeclaration",
            XMLNSC_DECLARATION,
            None,
            ("Version", XMLNSC_ATTRIBUTE, "1.0"),
            ("Encoding", XMLNSC_ATTRIBUTE, "UTF-8"),
            ("StandAlone", XMLNSC_ATTRIBUTE, "yes"),
        ),
        ("a", XMLNSC_FIELD, ""),
    ]
    assert tree(b"<?xml version='1.0' encoding='us-ascii'?><a/>", "XMLNS") == [
        ("XmlDecl", XML_DECLARATION, None, ("Version", XML_VERSION, "1.0"), ("Encoding", XML_ENCODING, "us-ascii")),
        ("a", NAME, ""),
    ]


def test_a_byte_order_mark_and_white_space_before_the_document_are_no_content() -> None:
    assert tree(b"\xef\xbb\xbf<a>1</a>") == [("a", XMLNSC_FIELD, "1")]
    assert tree(b"\n  <a>1</a>\n") == [("a", XMLNSC_FIELD, "1")]


# --- XMLNS and XML, reading -----------------------------------------------------------------------


def test_xmlns_keeps_comments_instructions_and_all_text() -> None:
    assert tree(b"<!--c--><a>\n<b>1</b>t<?pi x?><!--d--></a><?end?>", "XMLNS") == [
        ("", XML_COMMENT, "c"),
        (
            "a",
            NAME,
            None,
            ("", XML_CONTENT, "\n"),
            ("b", NAME, "1"),
            ("", XML_CONTENT, "t"),
            ("pi", XML_PROCESSING_INSTRUCTION, "x"),
            ("", XML_COMMENT, "d"),
        ),
        ("end", XML_PROCESSING_INSTRUCTION, ""),
    ]


def test_xmlns_declares_and_resolves_namespaces() -> None:
    assert tree(b'<p:a xmlns:p="v" p:x="1"/>', "XMLNS") == [
        ("{v}a", NAME, "", (XMLNS + "p", XML_NAMESPACE, "v"), ("{v}x", XML_ATTRIBUTE, "1"))
    ]


def test_the_old_domain_keeps_prefixes_in_names_and_declarations_as_attributes() -> None:
    assert tree(b'<p:a xmlns="u" p:x="1" xmlns:p="v"><p:b>t</p:b><!--c-->end</p:a>', "XML") == [
        (
            "p:a",
            NAME,
            None,
            ("xmlns", XML_ATTRIBUTE, "u"),
            ("p:x", XML_ATTRIBUTE, "1"),
            ("xmlns:p", XML_ATTRIBUTE, "v"),
            ("p:b", NAME, "t"),
            ("", XML_COMMENT, "c"),
            ("", XML_CONTENT, "end"),
        )
    ]


def test_the_old_domain_accepts_prefixes_that_nobody_declares() -> None:
    assert tree(b"<a><p:b x:y='1'/></a>", "XML") == [("a", NAME, None, ("p:b", NAME, "", ("x:y", XML_ATTRIBUTE, "1")))]
    with pytest.raises(MessageUnreadable, match="prefix p"):
        tree(b"<a><p:b/></a>", "XMLNSC")


def test_the_old_domain_reads_the_same_tree_with_either_parser() -> None:
    body = b"<a k='1'>\n<b>1<!--c-->2</b> x <c/>&amp;<d>&lt;</d></a>"
    assert tree(body, "XML") == tree(body, "XMLNS")
    with_prefix = tree(body.replace(b"<c/>", b"<p:c/>"), "XML")
    assert str(with_prefix).replace("p:c", "c") == str(tree(body, "XML"))


# --- writing ----------------------------------------------------------------------------------------


def test_a_tree_that_a_program_made_is_written() -> None:
    new = made(
        "XMLNSC",
        element(
            "order",
            None,
            element("id", 7),
            element("total", Decimal("0.480")),
            element("ratio", 44.72),
            element("open", True),
            element("hash", b"\x0a\xff"),
            element("day", datetime.date(2003, 12, 24)),
            element("at", datetime.datetime(2003, 12, 24, 10, tzinfo=datetime.UTC)),
            element("none"),
            element("empty", ""),
            element("line", None, element("sku", "A")),
        ),
    )
    assert new.render() == (
        b"<order><id>7</id><total>0.480</total><ratio>4.472E+1</ratio><open>true</open><hash>0AFF</hash>"
        b"<day>2003-12-24</day><at>2003-12-24T10:00:00Z</at><none/><empty/><line><sku>A</sku></line></order>"
    )


def test_characters_with_a_meaning_are_escaped() -> None:
    new = made(
        "XMLNSC",
        element("a", "<&>\r\n\t\"'", element("x", "<&>\"'\r\n\t", kind=XMLNSC_ATTRIBUTE)),
    )
    assert new.render() == (b'<a x="&lt;&amp;&gt;&quot;\'&#13;&#10;&#9;">&lt;&amp;&gt;&#13;\n\t"\'</a>')


def test_a_single_attribute_has_single_quotes() -> None:
    new = made("XMLNSC", element("a", None, element("x", "\"'", kind=XMLNSC_SINGLE_ATTRIBUTE)))
    assert new.render() == b"<a x='\"&apos;'/>"


def test_long_texts_are_escaped_too() -> None:
    assert made("XMLNSC", element("a", "x" * 500 + "<")).render() == b"<a>" + b"x" * 500 + b"&lt;</a>"
    assert made("XMLNSC", element("a", "\u20ac" * 500)).render() == b"<a>" + "\u20ac".encode() * 500 + b"</a>"
    with pytest.raises(MessageUnwritable, match=r"U\+0001"):
        made("XMLNSC", element("a", "x" * 500 + "\x01")).render()


def test_attributes_made_after_elements_still_stand_in_the_start_tag() -> None:
    new = made("XMLNSC", element("a", None, element("b", 1), element("x", 2, kind=XMLNSC_ATTRIBUTE)))
    assert new.render() == b'<a x="2"><b>1</b></a>'


def test_a_name_value_is_an_attribute_in_the_old_domains_and_an_element_in_xmlnsc() -> None:
    def given() -> Element:
        return element("a", None, element("x", "1", kind=0x03000000))

    assert made("XML", given()).render() == b'<a x="1"/>'
    assert made("XMLNS", given()).render() == b'<a x="1"/>'
    assert made("XMLNSC", given()).render() == b"<a><x>1</x></a>"


def test_a_value_with_children_is_written_before_them() -> None:
    assert made("XMLNSC", element("a", "t", element("b", 1))).render() == b"<a>t<b>1</b></a>"


@pytest.mark.parametrize("domain", ["XMLNSC", "XMLNS", "XML"])
def test_anonymous_values_are_text(domain: str) -> None:
    new = made(domain, element("a", None, element("", "x", kind=VALUE), element("b"), element("", 5, kind=VALUE)))
    assert new.render() == b"<a>x<b/>5</a>"


def test_cdata_sections_are_written_and_split_where_they_would_end() -> None:
    new = made("XMLNSC", element("a", "x]]>y<", kind=XMLNSC_CDATA_FIELD))
    assert new.render() == b"<a><![CDATA[x]]]]><![CDATA[>y<]]></a>"
    assert tree(new.render()) == [("a", XMLNSC_CDATA_FIELD, "x]]>y<")]
    mixed = made("XMLNS", element("a", None, element("", "<", kind=XML_CDATA), element("b")))
    assert mixed.render() == b"<a><![CDATA[<]]><b/></a>"


def test_comments_and_instructions_are_written() -> None:
    new = made(
        "XMLNS",
        element("", "c", kind=XML_COMMENT),
        element("a", None, element("pi", "x y", kind=XML_PROCESSING_INSTRUCTION), element("", " d ", kind=XML_COMMENT)),
        element("end", None, kind=XML_PROCESSING_INSTRUCTION),
    )
    assert new.render() == b"<!--c--><a><?pi x y?><!-- d --></a><?end?>"


def test_the_declaration_is_written_with_the_encoding_of_the_bytes() -> None:
    new = made(
        "XMLNSC",
        element(
            "XmlDeclaration",
            None,
            element("Version", "1.0", kind=XMLNSC_ATTRIBUTE),
            element("Encoding", "UTF-8", kind=XMLNSC_ATTRIBUTE),
            kind=XMLNSC_DECLARATION,
        ),
        element("a", "\xe9"),
    )
    assert new.render() == b'<?xml version="1.0" encoding="UTF-8"?><a>\xc3\xa9</a>'
    new.ccsid = 819
    assert new.render() == b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe9</a>'


def test_the_old_declaration_is_found_by_kind() -> None:
    new = made("XML", element("", None, element("", "1.0", kind=XML_VERSION), kind=XML_DECLARATION), element("a"))
    assert new.render() == b'<?xml version="1.0"?><a/>'


# --- namespaces, writing ----------------------------------------------------------------------------


def test_declared_prefixes_are_used() -> None:
    new = made(
        "XMLNSC",
        element("{n}root", None, element(XMLNS + "ns1", "n", kind=XMLNSC_NAMESPACE), element("{n}example", "ABCDE")),
    )
    assert new.render() == b'<ns1:root xmlns:ns1="n"><ns1:example>ABCDE</ns1:example></ns1:root>'


def test_a_default_namespace_needs_no_prefix() -> None:
    new = made(
        "XMLNSC",
        element("{n}root", None, element("xmlns", "n", kind=XMLNSC_NAMESPACE), element("{n}example", "ABCDE")),
    )
    assert new.render() == b'<root xmlns="n"><example>ABCDE</example></root>'


def test_an_element_without_namespace_below_a_default_namespace_is_refused() -> None:
    new = made("XMLNSC", element("root", None, element("xmlns", "n", kind=XMLNSC_NAMESPACE), element("example", 1)))
    with pytest.raises(MessageUnwritable, match="default namespace"):
        new.render()


def test_a_namespace_that_nobody_declared_gets_a_prefix() -> None:
    new = made(
        "XMLNSC",
        element(
            "{n}a",
            None,
            element("{m}x", 1, kind=XMLNSC_ATTRIBUTE),
            element("{n}b", None, element("{m}c", 2)),
            element("{k}d", 3),
        ),
    )
    assert new.render() == (
        b'<NS1:a xmlns:NS1="n" xmlns:NS2="m" NS2:x="1"><NS1:b><NS2:c>2</NS2:c></NS1:b>'
        b'<NS3:d xmlns:NS3="k">3</NS3:d></NS1:a>'
    )


def test_a_prefix_in_use_is_not_made_again() -> None:
    new = made("XMLNSC", element("{n}a", None, element(XMLNS + "NS1", "n", kind=XMLNSC_NAMESPACE), element("{m}b", 1)))
    assert new.render() == b'<NS1:a xmlns:NS1="n"><NS2:b xmlns:NS2="m">1</NS2:b></NS1:a>'


def test_an_attribute_never_takes_the_default_namespace() -> None:
    new = made(
        "XMLNSC",
        element("{n}a", None, element("xmlns", "n", kind=XMLNSC_NAMESPACE), element("{n}x", 1, kind=XMLNSC_ATTRIBUTE)),
    )
    assert new.render() == b'<a xmlns="n" xmlns:NS1="n" NS1:x="1"/>'


def test_xml_lang_needs_no_declaration() -> None:
    body = b'<a xml:lang="en"><b/></a>'
    read = folder(body)
    assert read.get("a", "{http://www.w3.org/XML/1998/namespace}lang") == "en"
    read.children[0].add("c", 1)
    assert read.render() == b'<a xml:lang="en"><b/><c>1</c></a>'


def test_input_prefixes_are_kept_when_elements_are_added() -> None:
    body = b'<p:a xmlns:p="v" xmlns:q="v" xmlns="v"><q:b/><c/><p:d q:x="1"/></p:a>'
    read = folder(body)
    read.children[0].add("{v}e", 1)
    assert read.render() == body.replace(b"</p:a>", b"<e>1</e></p:a>")


def test_the_old_domain_writes_names_without_their_namespace() -> None:
    assert made("XML", element("{n}a", None, element("p:b", 1))).render() == b"<a><p:b>1</p:b></a>"


# --- what XML cannot say ----------------------------------------------------------------------------


@for_each(
    ("domain", "children", "path", "problem"),
    [
        ("XMLNSC", [], "XMLNSC", "no document element"),
        ("XMLNSC", [element("a"), element("b")], "XMLNSC.b", "second"),
        ("XMLNSC", [element("", "text", kind=VALUE), element("a")], "XMLNSC.*", "only the document element"),
        ("XMLNSC", [element("x", 1, kind=XMLNSC_ATTRIBUTE), element("a")], "XMLNSC.x", "only the document element"),
        ("XMLNSC", [element("1a")], "XMLNSC.1a", "no XML name"),
        ("XMLNSC", [element("a b")], "XMLNSC.a b", "no XML name"),
        ("XMLNSC", [element("")], "XMLNSC.*", "no XML name"),
        ("XMLNSC", [element("p:a")], "XMLNSC.p:a", "no XML name"),
        ("XMLNSC", [element("a><b")], "XMLNSC.a><b", "no XML name"),
        ("XMLNSC", [element("{n")], "XMLNSC.{n", "no XML name"),
        ("XMLNSC", [element("{}a")], "XMLNSC.{}a", "empty"),
        ("XMLNSC", [element("a", None, element("b", "\x00"))], "XMLNSC.a.b", "U+0000"),
        ("XMLNSC", [element("a", "\ud800")], "XMLNSC.a", "U+D800"),
        ("XMLNSC", [element("a", "\uffff")], "XMLNSC.a", "U+FFFF"),
        ("XMLNSC", [element("a", [1])], "XMLNSC.a", "list"),
        ("XMLNSC", [element("a", None, element("x", "\x1b", kind=XMLNSC_ATTRIBUTE))], "XMLNSC.a.x", "U+001B"),
        (
            "XMLNSC",
            [element("a", None, *(element("x", 1, kind=XMLNSC_ATTRIBUTE) for _ in "12"))],
            "XMLNSC.a.x[2]",
            "only once",
        ),
        (
            "XMLNSC",
            [element("a", None, *(element("xmlns", "n", kind=XMLNSC_NAMESPACE) for _ in "12"))],
            "XMLNSC.a.xmlns[2]",
            "declared twice",
        ),
        (
            "XMLNSC",
            [element("a", None, element(XMLNS + "p", "", kind=XMLNSC_NAMESPACE))],
            f"XMLNSC.a.{XMLNS}p",
            "cannot be declared",
        ),
        ("XMLNS", [element("a", None, element("", "x--y", kind=XML_COMMENT))], "XMLNS.a.*", "hyphens"),
        ("XMLNS", [element("a", None, element("", "x-", kind=XML_COMMENT))], "XMLNS.a.*", "hyphens"),
        (
            "XMLNS",
            [element("a", None, element("p", "?>", kind=INSTRUCTION))],
            "XMLNS.a.p",
            "instruction",
        ),
        (
            "XMLNS",
            [element("a", None, element("xml", "", kind=INSTRUCTION))],
            "XMLNS.a.xml",
            "instruction",
        ),
        ("XMLNS", [element("a", None, element("d", None, kind=0x01000020))], "XMLNS.a.d", "DOCTYPE"),
        ("XMLNS", [element("a"), element("d", None, kind=XML_DECLARATION)], "XMLNS.d", "before everything"),
    ],
)
def test_what_xml_cannot_say_is_refused_with_its_path(
    domain: str, children: list[Element], path: str, problem: str
) -> None:
    new = made(domain, *(child.copy() for child in children))
    with pytest.raises(MessageUnwritable) as caught:
        new.render()
    assert (caught.value.domain, caught.value.path) == (domain, path)
    assert problem in caught.value.problem


def test_a_tree_too_deep_is_refused() -> None:
    new = folder(None)
    place: Element = new
    for _ in range(500):
        place = place.add("a")
    with pytest.raises(MessageUnwritable, match="deeper than 400"):
        new.render()


# --- code pages -------------------------------------------------------------------------------------


@for_each("domain", ["XMLNSC", "XMLNS", "XML"])
@for_each(
    ("body", "ccsid"),
    [
        ("<?xml version='1.0' encoding='ISO-8859-1'?><a><b>\xe9</b></a>".encode("latin-1"), 1208),
        ("<?xml version='1.0' encoding='windows-1252'?><a><b>\xe9</b></a>".encode("cp1252"), 1208),
        ("<a><b>\xe9</b></a>".encode("latin-1"), 819),
        ("<a><b>\xe9</b></a>".encode("cp500"), 500),
        ("<?xml version='1.0' encoding='IBM037'?><a><b>\xe9</b></a>".encode("cp037"), 37),
        ("<a><b>\xe9</b></a>".encode("cp500"), 1208),
        ("<a><b>\xe9</b></a>".encode("utf-16"), 1200),
        ("<a><b>\xe9</b></a>".encode("utf-16-be"), 1200),
        ("<?xml version='1.0' encoding='UTF-16'?><a><b>\xe9</b></a>".encode("utf-16-le"), 1208),
        ("<a><b>\xe9</b></a>".encode("utf-32"), 1208),
        ("<a>\n<b>\xe9</b>\x85</a>".encode("cp500"), 500),
    ],
)
def test_a_body_is_read_in_its_own_code_page(body: bytes, ccsid: int, domain: str) -> None:
    assert folder(body, domain, ccsid=ccsid).get("a", "b") == "\xe9"


@pytest.mark.parametrize(("ccsid", "name"), [(500, "cp500"), (819, "latin-1"), (1200, codec_of(1200))])
def test_a_changed_tree_is_written_in_the_code_page_of_the_folder(ccsid: int, name: str) -> None:
    read = folder("<a><b>\xe9</b></a>".encode(name), ccsid=ccsid)
    place = read.first("a")
    assert place is not None
    field = place.first("b")
    assert field is not None
    field.set_value("\xe8")
    assert read.render() == "<a><b>\xe8</b></a>".encode(name)
    place.add("c", 1)
    assert read.render() == "<a><b>\xe8</b><c>1</c></a>".encode(name)


def test_characters_that_the_code_page_lacks_become_references() -> None:
    new = made("XMLNSC", element("a", "\u20ac"))
    new.ccsid = 819
    assert new.render() == b"<a>&#8364;</a>"
    new.children[0].rename("\u20ac")
    with pytest.raises(MessageUnwritable):
        new.render()
