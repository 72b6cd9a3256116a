# SPDX-License-Identifier: Apache-2.0
"""The kinds of elements in a tree, with the numbers that ESQL programs see.

A kind is a 32-bit number: the first byte says whether an element has a name,
a value or both, the rest belongs to the domain. An element that a program
makes without saying a kind is a NAME, whatever the domain; domains render a
NAME with a value as they render their own simple field.
"""

from __future__ import annotations

NAME = 0x01000000
VALUE = 0x02000000
NAME_VALUE = 0x03000000

XML_ATTRIBUTE = 0x03000000
XML_CONTENT = 0x02000000
XML_CDATA = 0x02000001
XML_COMMENT = 0x02000004
XML_PROCESSING_INSTRUCTION = 0x0300000A
XML_DECLARATION = 0x01000018
XML_VERSION = 0x03000003
XML_ENCODING = 0x03000004
XML_STANDALONE = 0x03000005
XML_NAMESPACE = 0x03000002

XMLNSC_FOLDER = 0x01000000
XMLNSC_FIELD = 0x03000000
XMLNSC_CDATA_FIELD = 0x03000001
XMLNSC_HYBRID_FIELD = 0x03000002
XMLNSC_ATTRIBUTE = 0x03000100
XMLNSC_SINGLE_ATTRIBUTE = 0x03000101
XMLNSC_SINGLE_NAMESPACE = 0x03000102
XMLNSC_NAMESPACE = 0x03000103
XMLNSC_CONTENT = 0x02000000
XMLNSC_COMMENT = 0x03000400
XMLNSC_PROCESSING_INSTRUCTION = 0x03000401
XMLNSC_DECLARATION = 0x01000400

XML_URI = "http://www.w3.org/XML/1998/namespace"
XMLNS_URI = "http://www.w3.org/2000/xmlns/"
"""What the prefixes xml and xmlns stand for."""

JSON_OBJECT = 0x01000000
JSON_ARRAY = 0x01001000
JSON_VALUE = 0x03000000

_XML = {
    "ELEMENT": NAME,
    "TAG": NAME,
    "PARSERROOT": 0x01000010,
    "ATTRIBUTE": XML_ATTRIBUTE,
    "ATTR": XML_ATTRIBUTE,
    "CONTENT": XML_CONTENT,
    "PCDATA": XML_CONTENT,
    "CDATASECTION": XML_CDATA,
    "COMMENT": XML_COMMENT,
    "PROCESSINGINSTRUCTION": XML_PROCESSING_INSTRUCTION,
    "XMLDECL": XML_DECLARATION,
    "VERSION": XML_VERSION,
    "ENCODING": XML_ENCODING,
    "STANDALONE": XML_STANDALONE,
    "NAMESPACEDECL": XML_NAMESPACE,
}

_XMLNSC = {
    "FOLDER": XMLNSC_FOLDER,
    "FIELD": XMLNSC_FIELD,
    "PCDATAFIELD": XMLNSC_FIELD,
    "CDATAFIELD": XMLNSC_CDATA_FIELD,
    "HYBRIDFIELD": XMLNSC_HYBRID_FIELD,
    "ATTRIBUTE": XMLNSC_ATTRIBUTE,
    "DOUBLEATTRIBUTE": XMLNSC_ATTRIBUTE,
    "SINGLEATTRIBUTE": XMLNSC_SINGLE_ATTRIBUTE,
    "NAMESPACEDECL": XMLNSC_NAMESPACE,
    "DOUBLENAMESPACEDECL": XMLNSC_NAMESPACE,
    "SINGLENAMESPACEDECL": XMLNSC_SINGLE_NAMESPACE,
    "VALUE": XMLNSC_CONTENT,
    "PCDATAVALUE": XMLNSC_CONTENT,
    "CDATAVALUE": XML_CDATA,
    "COMMENT": XMLNSC_COMMENT,
    "PROCESSINGINSTRUCTION": XMLNSC_PROCESSING_INSTRUCTION,
    "XMLDECLARATION": XMLNSC_DECLARATION,
}

NAMED: dict[str, dict[str, int]] = {
    "XML": _XML,
    "XMLNS": _XML,
    "XMLNSC": _XMLNSC,
    "SOAP": _XMLNSC,
    "JSON": {"OBJECT": JSON_OBJECT, "ARRAY": JSON_ARRAY, "VALUE": JSON_VALUE, "NAMEVALUE": JSON_VALUE},
    "DFDL": {},
    "MRM": {"ATTRIBUTE": XMLNSC_ATTRIBUTE},
    "MQRFH2": {"FIELD": NAME_VALUE},
    "GENERIC": {"NAME": NAME, "VALUE": VALUE, "NAMEVALUE": NAME_VALUE},
}
"""`(XMLNSC.Attribute)` in a program, in capitals: domain, name, number. A bare `(NameValue)` is of the last one."""

ATTRIBUTES: dict[str, frozenset[int]] = {
    "XML": frozenset({XML_ATTRIBUTE}),
    "XMLNS": frozenset({XML_ATTRIBUTE}),
    "XMLNSC": frozenset({XMLNSC_ATTRIBUTE, XMLNSC_SINGLE_ATTRIBUTE}),
    "SOAP": frozenset({XMLNSC_ATTRIBUTE, XMLNSC_SINGLE_ATTRIBUTE}),
    "MRM": frozenset({XMLNSC_ATTRIBUTE, XMLNSC_SINGLE_ATTRIBUTE}),
}
"""Which kinds are attributes, for each domain that has any."""


def translate(kind: int, source: str, target: str) -> int:
    """The kind that plays the same part in another domain: an attribute stays an attribute."""
    if source == target:
        return kind
    old_xml = target in ("XML", "XMLNS")
    if kind in ATTRIBUTES.get(source, ()):
        return XML_ATTRIBUTE if old_xml else XMLNSC_ATTRIBUTE if target in ATTRIBUTES else NAME_VALUE
    if kind in _NAMESPACES.get(source, ()):
        return XML_NAMESPACE if old_xml else XMLNSC_NAMESPACE if target in ATTRIBUTES else NAME_VALUE
    plain = kind & 0xFF000000
    # What is a simple field elsewhere would be an attribute there.
    return NAME if old_xml and plain == NAME_VALUE else plain


_NAMESPACES = {
    "XML": {XML_NAMESPACE},
    "XMLNS": {XML_NAMESPACE},
    "XMLNSC": {XMLNSC_NAMESPACE, XMLNSC_SINGLE_NAMESPACE},
    "SOAP": {XMLNSC_NAMESPACE, XMLNSC_SINGLE_NAMESPACE},
}
