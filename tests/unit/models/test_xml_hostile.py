# SPDX-License-Identifier: Apache-2.0
"""Bodies that are wrong, by accident or on purpose: an error that says where, soon, and without a trace."""

from __future__ import annotations

import time

import pytest

from entrepot.errors.flows import CodePageUnknown, MessageTooComplex, MessageUnreadable
from entrepot.models.domains import find_domain
from entrepot.models.tree import Folder
from folding import for_each

DOMAINS = ["XMLNSC", "SOAP", "XMLNS", "XML"]
ANY_DOCUMENT = ["XMLNSC", "XMLNS", "XML"]
"""Those that do not ask for a SOAP Envelope."""


def folder(body: bytes, domain: str = "XMLNSC", ccsid: int = 1208) -> Folder:
    found = find_domain(domain)
    assert found is not None
    return Folder(found, body, ccsid=ccsid)


BOMB = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;&x;&x;">
<!ENTITY z "&y;&y;&y;&y;&y;&y;&y;&y;&y;&y;">]><a b="&z;">&z;</a>"""


@for_each("domain", DOMAINS)
@for_each(
    ("body", "offset"),
    [
        (b"<!DOCTYPE a><a/>", 0),
        (b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", 0),
        (b"<?xml version='1.0'?>\n<!-- c --><!DOCTYPE a><a/>", 32),
        (b"  <!DOCTYPE a><a/>", 2),
        (b"\xef\xbb\xbf<!DOCTYPE a><a/>", 3),
        (BOMB, 21),
    ],
)
def test_a_document_type_is_refused(domain: str, body: bytes, offset: int) -> None:
    with pytest.raises(MessageUnreadable, match="DOCTYPE") as caught:
        folder(body, domain).load()
    assert caught.value.offset == offset


@for_each("domain", DOMAINS)
@for_each("encoding", ["utf-16", "utf-16-be", "utf-32", "cp500"])
def test_a_document_type_in_another_encoding_is_refused(domain: str, encoding: str) -> None:
    body = "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>".encode(encoding)
    with pytest.raises(MessageUnreadable, match="DOCTYPE"):
        folder(body, domain).load()


@for_each("domain", DOMAINS)
@for_each("encoding", ["punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "zip", "rot13"])
def test_an_encoding_that_no_document_is_written_in_is_refused(domain: str, encoding: str) -> None:
    body = b"<?xml version='1.0' encoding='%s'?><a>\xe9-%s</a>" % (encoding.encode(), b"a" * 1_000_000)
    with pytest.raises(MessageUnreadable, match="which is not known"):
        folder(body, domain).load()


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_document_type_behind_an_encoding_that_hides_it_is_refused(domain: str) -> None:
    body = b"<?xml version='1.0' encoding='UTF-7'?>+ADwAIQ-DOCTYPE a+AD4APA-a/+AD4-"
    with pytest.raises(MessageUnreadable):
        folder(body, domain).load()


@pytest.mark.parametrize("domain", ANY_DOCUMENT)
def test_the_word_doctype_in_text_is_no_document_type(domain: str) -> None:
    assert folder(b"<a><![CDATA[<!DOCTYPE html>]]></a>", domain).get("a") == "<!DOCTYPE html>"


@for_each("domain", DOMAINS)
@for_each(
    ("body", "offset"),
    [
        (b"", 0),
        (b"   ", None),
        (b"hello", 0),
        (b"{}", 0),
        (b"<", None),
        (b"<a", None),
        (b"<a>", None),
        (b"<a>\n<b>\n</a>", None),
        (b"<a></a><b/>", 7),
        (b"<a/>trailing", 4),
        (b"<a b='1' b='2'/>", None),
        (b"<a b=1/>", 5),
        (b"<a>&nbsp;</a>", None),
        (b"<a>&#0;</a>", None),
        (b"<a>\x00</a>", 3),
        (b"<a>\xff</a>", 3),
        (b"<a>\xc3</a>", 3),
        (b"<a>\x01</a>", 3),
        (b"<a>]]></a>", None),
        (b"<a><!-- -- --></a>", None),
        (b" <?xml version='1.0'?><a/>", None),
        (b"<?xml version='1.0' encoding='no-such-code'?><a/>", 0),
        (b"<1/>", None),
    ],
)
def test_what_is_no_xml_is_refused(domain: str, body: bytes, offset: int | None) -> None:
    read = folder(body, domain)
    with pytest.raises(MessageUnreadable) as caught:
        read.load()
    assert caught.value.domain == domain
    assert caught.value.path == domain
    assert 0 <= caught.value.offset <= len(body)
    if offset is not None:
        assert abs(caught.value.offset - offset) <= 3
    assert read._children is None


def test_the_offset_of_an_error_counts_lines() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        folder(b"<a>\n<b>\n</c></a>").load()
    assert 8 <= caught.value.offset <= 12


@for_each("domain", DOMAINS)
@for_each("depth", [300, 1000, 100_000])
def test_deep_documents_are_refused(domain: str, depth: int) -> None:
    body = b"<a>" * depth + b"</a>" * depth
    with pytest.raises(MessageTooComplex) as caught:
        folder(body, domain).load()
    assert len(caught.value.path) < 100


def test_deep_documents_with_prefixes_are_refused_in_the_old_domain() -> None:
    body = b"<p:a>" * 100_000 + b"</p:a>" * 100_000
    with pytest.raises(MessageTooComplex):
        folder(body, "XML").load()


@pytest.mark.parametrize("domain", ANY_DOCUMENT)
def test_every_truncation_is_refused(domain: str) -> None:
    body = b'<?xml version="1.0"?><a x="1"><b>\xc3\xa9</b><![CDATA[x]]><!-- c --></a>'
    for end in range(len(body)):
        with pytest.raises(MessageUnreadable):
            folder(body[:end], domain).load()
    folder(body, domain).load()


@pytest.mark.parametrize("domain", ANY_DOCUMENT)
def test_many_attributes_are_read_soon(domain: str) -> None:
    body = b"<a " + b" ".join(b'a%d="%d"' % (n, n) for n in range(50_000)) + b"/>"
    started = time.process_time()
    read = folder(body, domain)
    assert read.get("a", "a49999") == "49999"
    read.changed(structure=True)
    assert read.render() == body
    assert time.process_time() - started < 3


@pytest.mark.parametrize("domain", ["XMLNSC", "XMLNS"])
def test_thousands_of_namespaces_at_one_place_are_refused(domain: str) -> None:
    body = b"<a " + b" ".join(b'xmlns:a%d="%d"' % (n, n) for n in range(5_000)) + b"><b/><b/></a>"
    with pytest.raises(MessageTooComplex, match="namespaces"):
        folder(body, domain).first("a").children  # type: ignore[union-attr]  # noqa: B018


def test_many_different_names_are_found_soon() -> None:
    body = b"<a>" + b"".join(b"<f%d/>" % n for n in range(20_000)) + b"</a>"
    place = folder(body).first("a")
    assert place is not None
    started = time.process_time()
    assert all(place.first(f"f{n}") is not None for n in range(20_000))
    assert all(place.first(f"g{n}") is None for n in range(20_000))
    assert time.process_time() - started < 5


def test_an_unknown_code_page_is_said() -> None:
    with pytest.raises(CodePageUnknown):
        folder(b"<a>\xff</a>", ccsid=99999).load()


def test_bytes_outside_the_code_page_are_refused_with_their_offset() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        folder(b"<a>\xff</a>", ccsid=367).load()
    assert caught.value.offset == 3
