# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.errors import ModelInvalid
from entrepot.models.logical import (
    Composition,
    CwfField,
    MessageSet,
    Separation,
    Simple,
    Structure,
    StructureMember,
    TdsField,
    TdsFormat,
    TdsStructure,
    ValueType,
    XmlField,
    XmlFormat,
)
from entrepot.models.mrm_xml import compile_xml
from entrepot.models.mxsd import load_mxsd, read_mxsd
from entrepot.models.mxsd.types import python_pattern
from entrepot.models.notation import read_notation, write_notation
from entrepot.models.tree import Element
from folding import for_each


def schema(inner: str, attributes: str = "") -> bytes:
    return f'<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema" {attributes}>\n{inner}</xsd:schema>'.encode()


def read(inner: str, attributes: str = "") -> MessageSet:
    return read_mxsd(schema(inner, attributes), "nowhere/m.mxsd")


def member(inner: str, more: str = "") -> StructureMember:
    """The one element of a message M."""
    text = (
        f'<xsd:element name="M"><xsd:complexType><xsd:sequence>{inner}</xsd:sequence></xsd:complexType></xsd:element>'
    )
    return read(text + more).messages["M"].structure.members[0]


def info(reps: str) -> str:
    return f'<xsd:annotation><xsd:appinfo source="WMQI_APPINFO">{reps}</xsd:appinfo></xsd:annotation>'


# --- plain schemas ------------------------------------------------------------------------------------------


@for_each(
    ("xsd_type", "simple"),
    [
        ("string", Simple(ValueType.STRING)), ("token", Simple(ValueType.STRING)), ("int", Simple(ValueType.INTEGER)),
        ("nonNegativeInteger", Simple(ValueType.INTEGER)), ("decimal", Simple(ValueType.DECIMAL)),
        ("double", Simple(ValueType.FLOAT)), ("boolean", Simple(ValueType.BOOLEAN)),
        ("hexBinary", Simple(ValueType.BINARY)), ("date", Simple(ValueType.DATE)), ("time", Simple(ValueType.TIME)),
        ("dateTime", Simple(ValueType.DATETIME)), ("gYear", Simple(ValueType.DATE, "yyyy")),
    ],
)  # fmt: skip
def test_built_in_types(xsd_type: str, simple: Simple) -> None:
    found = member(f'<xsd:element name="a" type="xsd:{xsd_type}"/>')
    assert (found.name, found.content, found.physical) == ("a", simple, {"XML1": XmlField()})


def test_facets_occurrences_and_values() -> None:
    found = member(
        '<xsd:element name="a" minOccurs="0" maxOccurs="unbounded" default="x"><xsd:simpleType>'
        '<xsd:restriction base="xsd:string"><xsd:maxLength value="4"/><xsd:enumeration value="x"/>'
        '<xsd:enumeration value="y"/><xsd:pattern value="[a-z]+$"/><xsd:minLength value="1"/></xsd:restriction>'
        "</xsd:simpleType></xsd:element>"
    )
    assert found.content == Simple(ValueType.STRING, length_max=4, values=("x", "y"), pattern=r"[a-z]+\$")
    assert (found.min_occurs, found.max_occurs, found.default) == (0, None, "x")
    assert member('<xsd:element name="a" type="xsd:string" fixed="F"/>').default == "F"


def test_named_types_references_groups_and_attributes() -> None:
    found = read(
        '<xsd:element name="Order" type="t:OrderType"/>'
        '<xsd:element name="note" type="xsd:string"/>'
        '<xsd:complexType name="OrderType"><xsd:sequence>'
        '<xsd:element name="line" type="t:Line" maxOccurs="5"/><xsd:element ref="t:note" minOccurs="0"/>'
        '<xsd:group ref="t:pay"/><xsd:element name="other" type="t:Line"/></xsd:sequence>'
        '<xsd:attribute name="id" type="t:Code" use="required"/>'
        '<xsd:attribute name="v" type="xsd:int"/></xsd:complexType>'
        '<xsd:complexType name="Line"><xsd:all><xsd:element name="sku" type="t:Code"/></xsd:all></xsd:complexType>'
        '<xsd:group name="pay"><xsd:choice><xsd:element name="cash" type="xsd:decimal"/>'
        '<xsd:element name="card" type="xsd:string"/></xsd:choice></xsd:group>'
        '<xsd:simpleType name="Code"><xsd:restriction base="xsd:string"><xsd:length value="3"/></xsd:restriction>'
        "</xsd:simpleType>",
        'targetNamespace="http://t" xmlns:t="http://t"',
    )
    assert (found.namespace, list(found.messages), found.formats) == ("http://t", ["Order"], {"XML1": XmlFormat()})
    ident, version, line, note, pay, other = found.messages["Order"].structure.members
    assert (ident.name, ident.min_occurs, ident.physical["XML1"]) == ("id", 1, XmlField(attribute=True))
    assert (version.name, version.min_occurs) == ("v", 0)
    # Local elements are in no namespace unless the schema says so; global ones are in its own.
    assert (line.name, line.max_occurs, note.name, note.min_occurs) == ("line", 5, "{http://t}note", 0)
    assert isinstance(line.content, Structure)
    assert line.content is other.content
    assert (line.content.name, line.content.composition) == ("Line", Composition.UNORDERED)
    assert isinstance(pay.content, Structure)
    assert (pay.name, pay.content.composition, len(pay.content.members)) == ("", Composition.CHOICE, 2)


def test_a_plain_schema_reads_and_writes_messages() -> None:
    found = read(
        '<xsd:element name="o"><xsd:complexType><xsd:sequence><xsd:element name="n" type="xsd:int"/>'
        "</xsd:sequence></xsd:complexType></xsd:element>",
        'targetNamespace="http://t" elementFormDefault="qualified"',
    )
    codec = compile_xml(found, "o", "XML1")
    message = Element("MRM")
    message.fill(codec.parse(b'<o xmlns="http://t"><n>5</n></o>', 1208, 546))
    assert message.get("{http://t}n") == 5
    assert codec.render(message, 1208, 546) == (
        b'<?xml version="1.0"?><tns:o xmlns:tns="http://t"><tns:n>5</tns:n></tns:o>'
    )


def test_extension_takes_over_what_it_extends() -> None:
    found = read(
        '<xsd:element name="M" type="B"/><xsd:complexType name="A"><xsd:sequence><xsd:element name="a" type="xsd:int"/>'
        '</xsd:sequence></xsd:complexType><xsd:complexType name="B"><xsd:complexContent><xsd:extension base="A">'
        '<xsd:sequence><xsd:element name="b" type="xsd:int"/></xsd:sequence></xsd:extension></xsd:complexContent>'
        "</xsd:complexType>"
    )
    assert [each.name for each in found.messages["M"].structure.members] == ["a", "b"]


# --- MRM definitions -------------------------------------------------------------------------------------------

FIXED = (
    '<xsd:element name="Order" type="OrderType">' + info('<MRMessage messageDefinition="/0/Order"/>') + "</xsd:element>"
    '<xsd:element name="Unmarked" type="OrderType"/>'
    '<xsd:complexType name="OrderType">'
    + info(
        '<MRComplexType composition="orderedSet"/><tdsStructRep messageSetDefaultRep="TDS" delimiter="&lt;CR>&lt;LF>" '
        'dataElementSeparation="AllElementsDelimited" groupIndicator="{" groupTerminator="}" tagLength="2" '
        'suppressAbsentElementDelimiters="EndOfType" observeElementLength="true"/>'
    )
    + '<xsd:sequence><xsd:element name="id" minOccurs="1" maxOccurs="3" default=" ">'
    + info(
        '<tdsElemRep messageSetDefaultRep="TDS" tag="ID" length="10" justification="rightJustify" dataPattern=".{10}" '
        'precision="-1"/><tdsInclRep messageSetDefaultRep="TDS" repeatingElementDelimiter="~"/>'
        '<cwfSimpleRep messageSetDefaultRep="CWF" physicalType="fixedLengthString" lengthCount="10" '
        'lengthUnits="bytes" paddingCharacter="SPACE" stringJustification="leftJustify" encodingNull="NullLiteralFill" '
        'encodingNullValue="NUL" byteAlignment="byte"/>'
        '<xmlElemRep messageSetDefaultRep="XML" xmlName="Ident"/>'
    )
    + '<xsd:simpleType><xsd:restriction base="xsd:string"><xsd:maxLength value="10"/></xsd:restriction>'
    '</xsd:simpleType></xsd:element><xsd:element ref="amount"/></xsd:sequence></xsd:complexType>'
    '<xsd:element name="amount" type="xsd:decimal">'
    + info(
        '<cwfSimpleRep messageSetDefaultRep="CWF" physicalType="packedDecimal" lengthCount="5" signed="false" '
        'virtualDecimalPoint="2" encodingNull="NullLogicalValue" encodingNullValue="0"/>'
    )
    + "</xsd:element>"
)


def test_representations_become_physical_properties() -> None:
    found = read(FIXED)
    assert list(found.messages) == ["Order"]
    assert {name: each.kind.value for name, each in found.formats.items()} == {"CWF": "CWF", "TDS": "TDS", "XML": "XML"}
    structure = found.messages["Order"].structure
    assert structure.physical == {
        "TDS": TdsStructure(
            Separation.ALL_DELIMITED, "\r\n", "{", "}", tag_length=2, suppress_absent="end", observe_length=True
        )
    }
    ident, amount = structure.members
    assert (ident.min_occurs, ident.max_occurs, ident.default) == (1, 3, " ")
    assert ident.physical == {
        "CWF": CwfField("string", 10, alignment=1, null_policy="fill", null_value="0x00"),
        "TDS": TdsField("ID", 10, pattern=".{10}", repeat_delimiter="~", justify="right"),
        "XML": XmlField("Ident"),
    }
    assert amount.physical["CWF"] == CwfField(
        "packed", 5, signed=False, decimals=2, null_policy="logical", null_value="0"
    )


def test_properties_inside_the_representation_count_too() -> None:
    found = member(
        '<xsd:element name="a" type="xsd:short">'
        + info('<cwfSimpleRep><externalDecimal lengthCount="3" signOrientation="LeadingSeparate"/></cwfSimpleRep>')
        + "</xsd:element>"
    )
    assert found.physical == {"CWF1": CwfField("external", 3, sign="leading separate", justify="right", padding="0")}


@pytest.mark.parametrize(("xsd_type", "cwf"), [("short", 2), ("int", 4), ("long", 8), ("integer", 4)])
def test_integers_have_the_length_of_their_type(xsd_type: str, cwf: int) -> None:
    found = member(f'<xsd:element name="a" type="xsd:{xsd_type}">' + info("<cwfSimpleRep/>") + "</xsd:element>")
    assert found.physical == {"CWF1": CwfField("integer", cwf)}


MSET = """<?xml version="1.0"?>
<m:MRMessageSet xmlns:m="http://www.ibm.com/msgmodel/2003/MSGCoreModel" name="VENDORS"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:MSGModel="http://www.ibm.com/msgmodel/2003/MSGModel">
  <MRMessageSetRep xsi:type="MSGModel:MRTDSMessageSetRep" name="TDS" delimiter="&lt;HT>"
     groupTerminator="&lt;CR>&lt;LF>" decimalPoint="," escapeCharacter="?" defaultCCSID="367"
     trimFixLengthString="TrimBoth"
     booleanTrueRepresentation="Y" booleanFalseRepresentation="N"><tagLength xsi:nil="true"/></MRMessageSetRep>
  <MRMessageSetRep xsi:type="MSGModel:MRXMLMessageSetRep" name="XML" suppressXMLDeclaration="true" rootTagName="env"/>
</m:MRMessageSet>
"""


def test_formats_come_from_the_message_set_above(tmp_path: Path) -> None:
    (tmp_path / "messageSet.mset").write_text(MSET)
    folder = tmp_path / "com" / "shop"
    folder.mkdir(parents=True)
    (folder / "order.mxsd").write_bytes(schema(FIXED))
    found = load_mxsd(folder / "order.mxsd")
    assert found.name == "VENDORS"
    assert found.formats == {
        "TDS": TdsFormat(
            delimiter="\t", group_terminator="\r\n", decimal_point=",", escape="?", boolean_true="Y",
            boolean_false="N", ccsid=367, trim="both",
        ),
        "XML": XmlFormat(root="env", declaration=False),
    }  # fmt: skip
    assert set(found.messages["Order"].structure.members[0].physical) == {"TDS", "XML"}


def test_what_is_included_lies_beside(tmp_path: Path) -> None:
    (tmp_path / "main.xsd").write_bytes(
        schema(
            '<xsd:include schemaLocation="parts.xsd"/><xsd:include schemaLocation="main.xsd"/>'
            '<xsd:element name="M" type="t:T"/>',
            'targetNamespace="http://t" xmlns:t="http://t"',
        )
    )
    parts = '<xsd:complexType name="T"><xsd:sequence><xsd:element name="a" type="S"/></xsd:sequence></xsd:complexType>'
    more = '<xsd:simpleType name="S"><xsd:restriction base="xsd:int"/></xsd:simpleType>'
    (tmp_path / "parts.xsd").write_bytes(schema(parts + more))
    assert load_mxsd(tmp_path / "main.xsd").messages["M"].structure.members[0].content == Simple(ValueType.INTEGER)


def test_a_definition_can_be_written_in_the_notation() -> None:
    found = read(FIXED)
    again = read_notation(write_notation(found))
    ident, amount = again.messages["Order"].structure.members
    assert (ident.physical, amount.physical) == tuple(
        each.physical for each in found.messages["Order"].structure.members
    )
    assert again.messages["Order"].structure.physical == found.messages["Order"].structure.physical


# --- mistakes ------------------------------------------------------------------------------------------------------


def in_message(inner: str) -> str:
    return f'<xsd:element name="M"><xsd:complexType>\n{inner}</xsd:complexType></xsd:element>'


@for_each(
    ("inner", "line", "complaint"),
    [
        ("", 1, "no message"),
        ('<xsd:element name="M" type="xsd:string"/>', 1, "no message"),
        (in_message("<xsd:sequence><xsd:any/></xsd:sequence>"), 3, "xsd:any is not supported"),
        (in_message("<xsd:anyAttribute/>"), 3, "xsd:anyAttribute is not supported"),
        (in_message("<xsd:simpleContent/>"), 3, "xsd:simpleContent is not supported"),
        (in_message('<xsd:sequence><xsd:element name="a"/></xsd:sequence>'), 3, "has no type"),
        (in_message('<xsd:sequence><xsd:element name="a" type="Nope"/></xsd:sequence>'), 3, "no type 'Nope'"),
        (in_message('<xsd:sequence><xsd:element name="a" type="p:T"/></xsd:sequence>'), 3, "prefix of 'p:T'"),
        (in_message('<xsd:sequence><xsd:element name="a" type="xsd:base64Binary"/></xsd:sequence>'), 3, "base64Binary"),
        (in_message('<xsd:sequence><xsd:element ref="a"/></xsd:sequence>'), 3, "no element 'a'"),
        (in_message('<xsd:sequence maxOccurs="x"/>'), 3, "no numbers"),
        (in_message('<xsd:sequence minOccurs="3" maxOccurs="2"/>'), 3, "less than"),
        (in_message('<xsd:sequence><xsd:element name="a"><xsd:simpleType><xsd:list itemType="xsd:int"/>'
                    "</xsd:simpleType></xsd:element></xsd:sequence>"), 3, "xsd:list is not supported"),
        (in_message('<xsd:sequence><xsd:element name="a"><xsd:simpleType><xsd:restriction base="xsd:string">'
                    '<xsd:pattern value="[a-z-[b]]"/></xsd:restriction></xsd:simpleType></xsd:element></xsd:sequence>'),
         3, "subtracts"),
        (in_message('<xsd:sequence><xsd:element name="a" abstract="true" type="xsd:int"/></xsd:sequence>'), 3,
         "substitution"),
        ('<xsd:element name="M" type="T"/>\n<xsd:complexType name="T"><xsd:sequence><xsd:element name="a" type="T"/>'
         "</xsd:sequence></xsd:complexType>", 3, "T > T"),
        ('<xsd:element name="M"><xsd:complexType mixed="true"/></xsd:element>', 2, "mixed"),
        ('<xsd:redefine schemaLocation="x"/>', 2, "redefine"),
        (in_message("<xsd:sequence>" + info('<cwfSimpleRep physicalType="nullTerminatedString"/>') + "</xsd:sequence>"),
         3, "null-terminated"),
    ],
)  # fmt: skip
def test_what_is_wrong_or_not_supported_is_named_with_its_line(inner: str, line: int, complaint: str) -> None:
    with pytest.raises(ModelInvalid) as caught:
        read(inner)
    assert complaint in caught.value.problem
    assert caught.value.line == line


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no", b"<a/>", b"\xff\xfe", b"<xsd:schema/>",
        b'<!DOCTYPE a [<!ENTITY x "y">]><xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema"/>',
        schema(in_message("<xsd:sequence>" * 200 + "</xsd:sequence>" * 200)),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(content: bytes) -> None:
    with pytest.raises(ModelInvalid):
        read_mxsd(content)


def test_types_that_double_on_every_level_are_refused() -> None:
    types = "".join(
        f'<xsd:complexType name="T{n}"><xsd:sequence><xsd:element name="a" type="T{n - 1}"/>'
        f'<xsd:element name="b" type="T{n - 1}"/></xsd:sequence></xsd:complexType>'
        for n in range(1, 40)
    )
    inner = '<xsd:sequence><xsd:element name="x" type="xsd:int"/></xsd:sequence>'
    last = f'<xsd:complexType name="T0">{inner}</xsd:complexType>'
    with pytest.raises(ModelInvalid, match="more than 200000"):
        read(f'<xsd:element name="M" type="T39"/>{types}{last}')


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (r"\i\c*", r"[A-Za-z_:][-.0-9:A-Z_a-z]*"),
        ("a^b$", r"a\^b\$"),
        (r"[\i]\d", r"[A-Za-z_:]\d"),
        (r"\p{Lu}", "[A-Z]"),
    ],
)
def test_patterns_of_schemas_become_pythons(theirs: str, ours: str) -> None:
    assert python_pattern(theirs) == ours
