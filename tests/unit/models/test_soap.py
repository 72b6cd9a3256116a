# SPDX-License-Identifier: Apache-2.0
"""SOAP, known answers: which tree an Envelope gives, and which Envelope a tree gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from entrepot.errors.flows import MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.domains import find_domain
from entrepot.models.element_types import (
    NAME,
    NAME_VALUE,
    XML_ATTRIBUTE,
    XMLNSC_ATTRIBUTE,
    XMLNSC_CDATA_FIELD,
    XMLNSC_DECLARATION,
    XMLNSC_FIELD,
    XMLNSC_NAMESPACE,
)
from entrepot.models.tree import Element, Folder, Root
from entrepot.models.xml.elements import XmlElement
from folding import for_each

U11 = "http://schemas.xmlsoap.org/soap/envelope/"
U12 = "http://www.w3.org/2003/05/soap-envelope"
XMLNS = "{http://www.w3.org/2000/xmlns/}"
Q = "{urn:q}"

QUOTE = (
    b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:q="urn:q"><s:Header><q:Id s:mustUnderstand='
    b'"1">c-1</q:Id></s:Header><s:Body><q:GetQuote unit="kg"><q:Article>b1</q:Article></q:GetQuote></s:Body>'
    b"</s:Envelope>"
)
BARE = b'<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><a>1</a></s:Body></s:Envelope>'


def folder(body: bytes | None, domain: str = "SOAP", **settings: Any) -> Folder:
    found = find_domain(domain)
    assert found is not None
    return Folder(found, body, **settings)


def place(tree: Element, *keys: str) -> Element:
    found: Element | None = tree
    for key in keys:
        assert found is not None
        found = found.first(key)
    assert found is not None, keys
    return found


def shape(element: Element) -> Any:
    """(name, kind, value, children ...)"""
    return (element.key, element.kind, element.value, *(shape(child) for child in element.children))


def made(tree: Element, path: str, value: Any = None, kind: int = NAME) -> Element:
    """Makes what a path of names, with bars between them, does not find, as SET does."""
    *above, last = path.split("|")
    for key in above:
        tree = tree.first(key) or tree.add(key)
    return tree.add(last, value, kind)


def declared(tree: Folder, prefix: str, uri: str) -> None:
    made(tree, f"Context|Namespace|{XMLNS}{prefix}", uri, XMLNSC_NAMESPACE)


def envelope(inside: bytes, uri: str = U11) -> bytes:
    return b'<s:Envelope xmlns:s="%b">%b</s:Envelope>' % (uri.encode(), inside)


# --- reading --------------------------------------------------------------------------------------


def test_an_envelope_is_context_header_and_body() -> None:
    assert [shape(child) for child in folder(QUOTE).children] == [
        (
            "Context",
            NAME,
            None,
            ("SOAP_Version", NAME_VALUE, "1.1"),
            ("operation", NAME_VALUE, "GetQuote"),
            (
                "Namespace",
                NAME,
                None,
                (f"{XMLNS}s", XMLNSC_NAMESPACE, U11),
                (f"{XMLNS}q", XMLNSC_NAMESPACE, "urn:q"),
            ),
        ),
        (
            "Header",
            NAME,
            None,
            (f"{Q}Id", XMLNSC_FIELD, "c-1", (f"{{{U11}}}mustUnderstand", XMLNSC_ATTRIBUTE, "1")),
        ),
        (
            "Body",
            NAME,
            None,
            (
                f"{Q}GetQuote",
                NAME,
                None,
                ("unit", XMLNSC_ATTRIBUTE, "kg"),
                (f"{Q}Article", XMLNSC_FIELD, "b1"),
            ),
        ),
    ]


def test_version_1_2_is_told_and_a_header_need_not_be() -> None:
    read = folder(BARE)
    assert [child.key for child in read.children] == ["Context", "Body"]
    assert read.get("Context", "SOAP_Version") == "1.2"
    assert read.get("Body", "a") == "1"


def test_a_default_namespace_is_the_declaration_xmlns() -> None:
    read = folder(b'<Envelope xmlns="%b"><Body/></Envelope>' % U11.encode())
    assert shape(place(read, "Context", "Namespace")) == ("Namespace", NAME, None, ("xmlns", XMLNSC_NAMESPACE, U11))


@pytest.mark.parametrize(
    "inside", [b"<s:Body/>", b"<s:Body></s:Body>", b"<s:Body> \n </s:Body>", b"<s:Header/><s:Body/>"]
)
def test_an_empty_body_is_a_folder_without_an_operation(inside: bytes) -> None:
    read = folder(envelope(inside))
    assert shape(place(read, "Body")) == ("Body", NAME, None)
    assert place(read, "Body").is_leaf()
    assert place(read, "Context").first("operation") is None


def test_a_fault_is_a_child_of_the_body() -> None:
    fault = b"<s:Fault><faultcode>s:Server</faultcode><faultstring>no</faultstring></s:Fault>"
    read = folder(envelope(b"<s:Body>" + fault + b"</s:Body>"))
    assert read.get("Body", f"{{{U11}}}Fault", "faultcode") == "s:Server"
    assert read.get("Context", "operation") == "Fault"


def test_the_declaration_of_the_document_lies_in_context() -> None:
    read = folder(b'<?xml version="1.0" encoding="UTF-8"?>\n' + QUOTE)
    assert shape(place(read, "Context", "XmlDeclaration")) == (
        "XmlDeclaration",
        XMLNSC_DECLARATION,
        None,
        ("Version", XMLNSC_ATTRIBUTE, "1.0"),
        ("Encoding", XMLNSC_ATTRIBUTE, "UTF-8"),
    )
    assert [child.key for child in read.children] == ["Context", "Header", "Body"]


def test_attributes_of_the_envelope_lie_in_context() -> None:
    read = folder(b'<s:Envelope xmlns:s="%b" s:encodingStyle="urn:e"><s:Body/></s:Envelope>' % U11.encode())
    assert shape(place(read, "Context", "Envelope")) == (
        "Envelope",
        NAME,
        None,
        (f"{{{U11}}}encodingStyle", XMLNSC_ATTRIBUTE, "urn:e"),
    )


def test_attributes_and_declarations_of_the_body_stay_there() -> None:
    read = folder(envelope(b'<s:Body xmlns:w="urn:w" w:Id="7"><w:a/></s:Body>'))
    assert shape(place(read, "Body")) == (
        "Body",
        NAME,
        None,
        (f"{XMLNS}w", XMLNSC_NAMESPACE, "urn:w"),
        ("{urn:w}Id", XMLNSC_ATTRIBUTE, "7"),
        ("{urn:w}a", XMLNSC_FIELD, ""),
    )


def test_sections_comments_and_white_space_are_read_as_xmlnsc_reads_them() -> None:
    read = folder(envelope(b"\n <!-- c -->\n <s:Body>\n  <?p i?><a><![CDATA[<&]]></a>\n </s:Body>\n"))
    assert shape(place(read, "Body")) == ("Body", NAME, None, ("a", XMLNSC_CDATA_FIELD, "<&"))


def test_the_body_is_read_level_by_level() -> None:
    read = folder(envelope(b"<s:Body>" + b"".join(b"<a%d><b/></a%d>" % (n, n) for n in range(9)) + b"</s:Body>"))
    found = place(read, "Body", "a3")
    body = place(read, "Body")
    assert isinstance(body, XmlElement)
    assert body._children is None
    assert body.all("a3") == [found]
    assert place(read, "Context")._children is None


@pytest.mark.parametrize(("ccsid", "codec"), [(500, "cp500"), (1208, "utf-16")])
def test_envelopes_in_other_encodings_are_read(ccsid: int, codec: str) -> None:
    read = folder(QUOTE.decode().encode(codec), ccsid=ccsid)
    assert read.get("Body", f"{Q}GetQuote", f"{Q}Article") == "b1"


def test_an_early_field_of_a_long_message_is_found_without_the_rest() -> None:
    rest = b"<q:Line>x</q:Line>" * 2_000
    body = QUOTE.replace(b"</q:GetQuote>", rest + b"</q:GetQuote>")
    read = folder(body)
    assert read.peek(("Header", f"{Q}Id")) == (True, "c-1")
    assert read.peek(("Body", f"{Q}GetQuote", f"{Q}Article")) == (True, "b1")
    assert read.peek(("Body", f"{Q}GetQuote", f"{Q}Nothing")) == (False, None)
    assert read.peek(("Context", "SOAP_Version")) == (False, None)
    assert read._children is None
    assert folder(body.replace(U11.encode(), U12.encode())).peek(("Header", f"{Q}Id")) == (True, "c-1")


# --- what is no SOAP ------------------------------------------------------------------------------


@for_each(
    ("body", "words"),
    [
        (b"<order><id>7</id></order>", "the document element is order, and no SOAP Envelope"),
        (b"<Envelope><Body/></Envelope>", "the document element is Envelope, and"),
        (envelope(b"<s:Body/>", "http://www.w3.org/2001/12/soap-envelope"), "{http://www.w3.org/2001/12/soap-envelope}Env"),
        (envelope(b""), "the Envelope has no Body"),
        (envelope(b"<s:Header/>"), "the Envelope has no Body"),
        (envelope(b"<s:Body/><s:Body/>"), f"and no {{{U11}}}Body here"),
        (envelope(b"<s:Header/><s:Header/><s:Body/>"), f"and no {{{U11}}}Header here"),
        (envelope(b"<s:Body/><s:Header/>"), f"and no {{{U11}}}Header here"),
        (envelope(b"<Body/>"), "and no Body here"),
        (envelope(b"<s:Body/><t:Trailer xmlns:t='urn:t'/>"), "and no {urn:t}Trailer here"),
        (envelope(b'<n:Body xmlns:n="%b"/>' % U12.encode()), f"and no {{{U12}}}Body here"),
        (b"<!DOCTYPE a>" + QUOTE, "DOCTYPE"),
        (QUOTE[:-5], "offset"),
        (b"", "offset 0"),
    ],
)  # fmt: skip
def test_what_is_no_soap_message_is_refused(body: bytes, words: str) -> None:
    read = folder(body)
    with pytest.raises(MessageUnreadable) as refused:
        read.load()
    assert words in str(refused.value)
    assert refused.value.domain == "SOAP"
    assert read._children is None
    assert read.render() == body


def test_the_offset_is_that_of_the_line() -> None:
    with pytest.raises(MessageUnreadable) as refused:
        folder(envelope(b"\n<s:Body/>\n<x/>")).load()
    assert refused.value.offset == len(b'<s:Envelope xmlns:s="%b">\n<s:Body/>\n' % U11.encode())


def test_deep_bodies_are_refused() -> None:
    with pytest.raises(MessageTooComplex):
        folder(envelope(b"<s:Body>" + b"<a>" * 1000 + b"</a>" * 1000 + b"</s:Body>")).load()


def test_thousands_of_namespaces_are_refused() -> None:
    many = b" ".join(b'xmlns:a%d="%d"' % (n, n) for n in range(5_000))
    read = folder(b'<s:Envelope xmlns:s="%b" %b><s:Body/></s:Envelope>' % (U11.encode(), many))
    with pytest.raises(MessageTooComplex, match="namespaces"):
        place(read, "Context", "SOAP_Version")


def test_a_long_name_is_told_in_part() -> None:
    with pytest.raises(MessageUnreadable) as refused:
        folder(b"<" + b"a" * 40_000 + b"/>").load()
    assert len(str(refused.value)) < 1_000


# --- writing what was read ------------------------------------------------------------------------


def test_a_message_that_nobody_changed_is_written_as_it_came() -> None:
    body = b"<?xml version='1.0'?>\n<!-- c -->" + QUOTE.replace(b"><", b"> <")
    read = folder(body)
    for child in read.children:
        shape(child)
    assert read.render() is body


def test_a_changed_value_leaves_the_rest_as_it_is() -> None:
    read = folder(QUOTE)
    place(read, "Body", f"{Q}GetQuote", f"{Q}Article").set_value("c2")
    place(read, "Body", f"{Q}GetQuote", "unit").set_value("t")
    assert read.render() == QUOTE.replace(b"b1", b"c2").replace(b"kg", b"t")


def test_a_changed_structure_keeps_prefixes_header_and_attributes() -> None:
    read = folder(QUOTE)
    place(read, "Body", f"{Q}GetQuote").add(f"{Q}Count", 3)
    assert read.render() == QUOTE.replace(b"</q:GetQuote>", b"<q:Count>3</q:Count></q:GetQuote>")


def test_values_and_structure_change_together() -> None:
    read = folder(QUOTE)
    place(read, "Header", f"{Q}Id").set_value("c-2")
    place(read, "Body").add(f"{Q}More", "x")
    assert read.render() == QUOTE.replace(b"c-1", b"c-2").replace(b"</s:Body>", b"<q:More>x</q:More></s:Body>")


@for_each(
    "body",
    [
        QUOTE,
        BARE,
        b'<?xml version="1.0" encoding="UTF-8"?>' + QUOTE,
        envelope(b"<s:Header/><s:Body/>"),
        envelope(b'<s:Body xmlns:w="urn:w" w:Id="7"><w:a/></s:Body>'),
        b'<s:Envelope xmlns:s="%b" s:encodingStyle="urn:e"><s:Body><a/></s:Body></s:Envelope>' % U11.encode(),
        b'<Envelope xmlns="%b"><Body><a xmlns="urn:a"><b/></a></Body></Envelope>' % U12.encode(),
        envelope(b"<s:Body><a><![CDATA[<&]]></a></s:Body>"),
        envelope(b"<s:Body>text</s:Body>"),
    ],
)
def test_an_envelope_that_is_written_anew_is_the_same(body: bytes) -> None:
    read = folder(body)
    read.changed(structure=True)
    assert read.render() == body
    twin = read.copy()
    assert twin.render() == body
    assert [shape(child) for child in twin.children] == [shape(child) for child in folder(body).children]


def test_another_version_is_another_namespace() -> None:
    read = folder(BARE)
    place(read, "Context", "SOAP_Version").set_value("1.1")
    place(read, "Context", "Namespace").clear()
    assert read.render() == (
        b'<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><a>1</a>'
        b"</soapenv:Body></soapenv:Envelope>"
    )


def test_a_prefix_that_means_the_other_version_is_not_used() -> None:
    new = folder(None)
    made(new, "Context|SOAP_Version", "1.2")
    declared(new, "soapenv", U11)
    made(new, "Body|a", 1)
    assert new.render() == (
        b'<NS1:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:NS1="http://www.w3.org/2003/05/'
        b'soap-envelope"><NS1:Body><a>1</a></NS1:Body></NS1:Envelope>'
    )


# --- writing what a program made ------------------------------------------------------------------


def test_a_message_from_nothing_is_version_1_1() -> None:
    new = folder(None)
    made(new, f"Body|{Q}Reply|{Q}Sum", Decimal("9.90"))
    made(new, f"Header|{Q}Id", 7)
    declared(new, "q", "urn:q")
    assert new.render() == (
        b'<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:q="urn:q"><soapenv:Header>'
        b"<q:Id>7</q:Id></soapenv:Header><soapenv:Body><q:Reply><q:Sum>9.90</q:Sum></q:Reply></soapenv:Body>"
        b"</soapenv:Envelope>"
    )


def test_prefixes_that_nobody_declares_are_made() -> None:
    new = folder(None)
    made(new, f"Body|{Q}Reply", "x")
    assert new.render() == (
        b'<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><NS1:Reply '
        b'xmlns:NS1="urn:q">x</NS1:Reply></soapenv:Body></soapenv:Envelope>'
    )


def test_a_declaration_needs_no_kind() -> None:
    new = folder(None)
    made(new, "Context|Namespace|s", U12)
    made(new, "Body|a", "x")
    assert new.render() == (
        b'<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><a>x</a></s:Body></s:Envelope>'
    )


def test_a_fault_of_version_1_2_makes_the_envelope_one() -> None:
    new = folder(None)
    made(new, f"Body|{{{U12}}}Fault|{{{U12}}}Code|{{{U12}}}Value", "soapenv:Receiver")
    assert new.render() == (
        b'<soapenv:Envelope xmlns:soapenv="http://www.w3.org/2003/05/soap-envelope"><soapenv:Body><soapenv:Fault>'
        b"<soapenv:Code><soapenv:Value>soapenv:Receiver</soapenv:Value></soapenv:Code></soapenv:Fault></soapenv:Body>"
        b"</soapenv:Envelope>"
    )


def test_a_declaration_of_the_document_is_written() -> None:
    new = folder(None)
    made(new, "Context|XmlDeclaration|Version", "1.0")
    made(new, "Context|XmlDeclaration|Encoding", "UTF-8")
    made(new, "Body|a", "x")
    assert new.render().startswith(b'<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope ')


def test_characters_that_the_code_page_lacks_are_references() -> None:
    new = folder(None, ccsid=819)
    made(new, "Body|a", "é€")
    assert b"<a>\xe9&#8364;</a>" in new.render()


def test_what_wsdl_would_tell_is_not_written() -> None:
    new = folder(None)
    made(new, "Context|operation", "GetQuote")
    made(new, "Context|portType", "Quotes")
    made(new, "Body")
    assert new.render() == (
        b'<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body/></soapenv:Envelope>'
    )


@pytest.mark.parametrize(
    ("paths", "where", "words"),
    [
        ([], "SOAP", "there is no Body"),
        (["Header|a"], "SOAP", "there is no Body"),
        (["Body|a", "Reply"], "SOAP.Reply", "Context, Header and Body"),
        ([f"{{{U11}}}Envelope|{{{U11}}}Body"], f"SOAP.{{{U11}}}Envelope", "Context, Header and Body"),
        (["Body|a", "Attachment|part"], "SOAP.Attachment", "attachments are not supported"),
        (["Body|a b"], "SOAP.Body.a b", "no XML name"),
        (["Body|a", "Context|Namespace|a b"], "a b", "no XML name"),
    ],
)
def test_what_no_envelope_has_is_not_written(paths: list[str], where: str, words: str) -> None:
    new = folder(None)
    for path in paths:
        made(new, path, "urn:x")
    with pytest.raises(MessageUnwritable, match=words) as refused:
        new.render()
    assert refused.value.domain == "SOAP"
    assert refused.value.path.endswith(where)


def test_a_second_body_is_not_written() -> None:
    new = folder(None)
    new.add("Body")
    new.add("Body")
    with pytest.raises(MessageUnwritable, match="one already") as refused:
        new.render()
    assert refused.value.path == "SOAP.Body[2]"


@pytest.mark.parametrize("version", ["1.3", "", 2, b"\x01", True])
def test_an_unknown_version_is_not_written(version: Any) -> None:
    new = folder(None)
    made(new, "Context|SOAP_Version", version)
    made(new, "Body")
    with pytest.raises(MessageUnwritable, match=r"'1\.1' and '1\.2'"):
        new.render()


def test_a_version_may_be_a_number() -> None:
    new = folder(None)
    made(new, "Context|SOAP_Version", Decimal("1.2"))
    made(new, "Body")
    assert U12.encode() in new.render()


# --- between trees --------------------------------------------------------------------------------


def test_a_copied_folder_keeps_the_bytes_until_it_changes() -> None:
    output = Root()
    copied = output.append(output.new_child("SOAP"))
    read = folder(QUOTE)
    copied.replace_content(read)
    assert isinstance(copied, Folder)
    assert copied.render() is QUOTE
    place(copied, "Header").clear()
    place(copied, "Header").add(f"{Q}Id", "c-9")
    assert copied.render() == QUOTE.replace(b' s:mustUnderstand="1">c-1', b">c-9")
    assert read.render() is QUOTE


def test_a_copied_body_takes_its_namespaces_from_the_new_context() -> None:
    new = folder(None)
    declared(new, "p", "urn:q")
    new.add("Body").replace_content(place(folder(QUOTE), "Body"))
    assert new.render() == (
        b'<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:p="urn:q"><soapenv:Body>'
        b'<p:GetQuote unit="kg"><p:Article>b1</p:Article></p:GetQuote></soapenv:Body></soapenv:Envelope>'
    )


def test_what_is_in_the_body_becomes_a_document_of_its_own() -> None:
    new = folder(None, "XMLNSC")
    new.add(f"{Q}GetQuote").replace_content(place(folder(QUOTE), "Body", f"{Q}GetQuote"))
    assert new.render() == b'<NS1:GetQuote xmlns:NS1="urn:q" unit="kg"><NS1:Article>b1</NS1:Article></NS1:GetQuote>'


def test_attributes_stay_attributes_in_the_old_domain_and_back() -> None:
    old = folder(None, "XMLNS")
    old.add("a").replace_content(place(folder(QUOTE), "Body", f"{Q}GetQuote"))
    assert place(old, "a", "unit").kind == XML_ATTRIBUTE
    new = folder(None)
    made(new, "Body|a").replace_content(place(old, "a"))
    assert place(new, "Body", "a", "unit").kind == XMLNSC_ATTRIBUTE


def test_a_message_goes_through_the_assembly_and_comes_back() -> None:
    message = Message(QUOTE, format="MQSTR")
    root = parse_message(message, domain="SOAP").root
    assert root.get("SOAP", "Body", f"{Q}GetQuote", f"{Q}Article") == "b1"
    assert render_message(root) is message
    place(root, "SOAP", "Body", f"{Q}GetQuote", f"{Q}Article").set_value("c2")
    assert render_message(root).body == QUOTE.replace(b"b1", b"c2")


def test_another_code_page_on_the_way_out_is_written() -> None:
    root = parse_message(Message(QUOTE, ccsid=1208), domain="SOAP").root
    place(root, "MQMD", "CodedCharSetId").set_value(500)
    assert render_message(root).body == QUOTE.decode().encode("cp500")
