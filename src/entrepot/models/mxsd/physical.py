# SPDX-License-Identifier: Apache-2.0
"""What MRM definitions say of physical formats, in our words.

A definition carries `tdsElemRep`, `cwfSimpleRep` and the like in the appinfo
of its elements and types; messageSet.mset says what holds for the whole set.
Toolkits of different years wrote properties as attributes of the
representation or of an element inside it, so both are looked at, whatever
the case of their letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lxml import etree

from entrepot.errors import ModelInvalid
from entrepot.models.logical import CwfFormat, Format, Kind, Separation, TdsFormat, XmlFormat
from entrepot.models.notation.physical import Given
from entrepot.models.tds.mnemonics import resolve

_XSI_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"

KINDS = {"cwf": Kind.CWF, "tds": Kind.TDS, "xml": Kind.XML}
DEFAULT_NAMES = {Kind.CWF: "CWF1", Kind.TDS: "TDS1", Kind.XML: "XML1"}

_SEPARATIONS = {
    "fixedlength": Separation.FIXED_LENGTH,
    "taggeddelimited": Separation.TAGGED_DELIMITED,
    "taggedfixedlength": Separation.TAGGED_FIXED_LENGTH,
    "taggedencodedlength": Separation.TAGGED_ENCODED_LENGTH,
    "allelementsdelimited": Separation.ALL_DELIMITED,
    "variablelengthelementsdelimited": Separation.VARIABLE_DELIMITED,
    "usedatapattern": Separation.DATA_PATTERN,
}
_STORAGES = (
    ("packed", "packed"),
    ("external", "external"),
    ("zoned", "external"),
    ("float", "float"),
    ("binary", "binary"),
    ("boolean", "boolean"),
    ("integer", "integer"),
    ("string", "string"),
)
_ALIGNMENTS = {"byte": 1, "halfword": 2, "word": 4, "doubleword": 8, "1": 1, "2": 2, "4": 4, "8": 8}
_CWF_NULLS = {"nullliteralfill": "fill", "nullpadfill": "fill", "nullliteralvalue": "literal", "nullliteral": "literal",
              "nulllogicalvalue": "logical"}  # fmt: skip
_TDS_NULLS = {
    "nullempty": "empty",
    "nullliteralvalue": "literal",
    "nullliteral": "literal",
    "nullliteralfill": "literal",
}
_CHARACTERS = {"space": " ", "nul": "0x00", "null": "0x00", "zero": "0"}


class Rep:
    """One representation: its format, what it is for, and its properties."""

    def __init__(self, node: etree._Element, file: str) -> None:
        self.node = node
        self.file = file
        tag = str(etree.QName(node).localname)
        self.tag = tag.lower()
        self.kind = KINDS.get(self.tag[:3])
        self.properties: dict[str, str] = {}
        types: list[str] = []
        for each in node.iter(etree.Element):
            self.properties |= {str(etree.QName(key).localname).lower(): str(value) for key, value in each.items()}
            types.append(str(each.get(_XSI_TYPE, "")))
            if each is not node:
                types.append(str(etree.QName(each).localname))
        self.physical_type = (self.get("physicalType", "cwfPhysicalType") or "".join(types)).lower()
        self.format_name = self.get("messageSetDefaultRep") or (DEFAULT_NAMES[self.kind] if self.kind else "")

    def get(self, *names: str) -> str:
        """The first of these properties that is there; nothing when none is."""
        for name in names:
            value = self.properties.get(name.lower())
            if value is not None:
                return value
        return ""

    def wrong(self, problem: str) -> ModelInvalid:
        return ModelInvalid(self.file, self.node.sourceline or 1, 1, problem)

    def number(self, *names: str) -> int | None:
        text = self.get(*names)
        if not text:
            return None
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise self.wrong(f"{names[0]} is {text!r}, not a number")
        return int(text)

    def flag(self, *names: str) -> bool | None:
        text = self.get(*names).lower()
        return None if not text else text in ("true", "yes", "1")


def reps_of(annotated: etree._Element, file: str) -> Iterator[Rep]:
    """The representations in the appinfo of an element or type."""
    for appinfo in annotated.iterfind("{*}annotation/{*}appinfo"):
        if appinfo.get("source") == "WMQI_APPINFO":
            for node in appinfo.iterchildren(etree.Element):
                rep = Rep(node, file)
                if rep.kind is not None and rep.tag.endswith("rep"):
                    yield rep


# --- elements -------------------------------------------------------------------------------------------


def field_given(rep: Rep) -> Given:
    """What a representation says of an element."""
    if rep.kind is Kind.CWF:
        return _cwf(rep)
    if rep.kind is Kind.TDS:
        return _tds(rep)
    found: Given = {}
    if rep.get("xmlName", "elementName"):
        found["name"] = rep.get("xmlName", "elementName")
    render = rep.get("render", "xmlRender").lower()
    if render in ("xmlattribute", "attribute"):
        found["attribute"] = True
    elif "val" in render or "id" in render:
        raise rep.wrong(
            f"XML rendering {rep.get('render', 'xmlRender')} is not supported; XMLElement and XMLAttribute are"
        )
    if rep.get("formatString", "dateTimeFormat"):
        found["format"] = rep.get("formatString", "dateTimeFormat")
    return found


def _cwf(rep: Rep) -> Given:
    found: Given = {}
    storage = next((ours for theirs, ours in _STORAGES if theirs in rep.physical_type), "")
    if any(word in rep.physical_type for word in ("lengthencoded", "nullterminated")):
        raise rep.wrong("length-encoded and null-terminated strings of CWF are not supported")
    if storage:
        found["storage"] = storage
    units = rep.get("lengthUnits").lower()
    if units.startswith("character"):
        found["length_unit"] = "characters"
    elif units.startswith("end"):
        raise rep.wrong("a length up to the end of the bit stream is not supported in CWF")
    sign = rep.get("signOrientation").lower()
    if sign:
        separate = " separate" if "separate" in sign else ""
        found["sign"] = ("leading" if sign.startswith("lead") else "trailing") + separate
    alignment = rep.get("byteAlignment", "alignment").lower()
    if alignment in _ALIGNMENTS:
        found["alignment"] = _ALIGNMENTS[alignment]
    _numbers(
        rep,
        found,
        length=("lengthCount", "length"),
        decimals=("virtualDecimalPoint", "virtualDecimal"),
        skip_before=("leadingSkipCount", "skipCountLeading"),
        skip_after=("trailingSkipCount", "skipCountTrailing"),
    )
    if rep.flag("signed", "isSigned") is not None:
        found["signed"] = rep.flag("signed", "isSigned")
    _references(rep, found)
    _justified(rep, found)
    null = _CWF_NULLS.get(rep.get("encodingNull", "nullRepresentation").lower())
    if null:
        found["null_policy"] = null
        value = rep.get("encodingNullValue", "nullValue")
        found["null_value"] = _character(value) if null == "fill" else value
        if null == "fill" and not value:
            found["null_value"] = found.get("padding", " ")
    return found


def _tds(rep: Rep) -> Given:
    found: Given = {}
    if rep.get("tag"):
        found["tag"] = resolve(rep.get("tag"))
    if rep.get("dataPattern"):
        found["pattern"] = rep.get("dataPattern")
    if rep.get("repeatingElementDelimiter"):
        found["repeat_delimiter"] = resolve(rep.get("repeatingElementDelimiter"))
    _numbers(rep, found, length=("length", "lengthCount"), decimals=("virtualDecimalPoint", "virtualDecimal"))
    _references(rep, found)
    _justified(rep, found)
    null = _TDS_NULLS.get(rep.get("encodingNull", "nullRepresentation").lower())
    if null:
        found["null_policy"] = null
        found["null_value"] = resolve(rep.get("encodingNullValue", "nullValue"))
    return found


def _numbers(rep: Rep, found: Given, **names: tuple[str, ...]) -> None:
    for ours, theirs in names.items():
        value = rep.number(*theirs)
        if value is not None and (value >= 0 or ours == "decimals"):
            found[ours] = value


def _references(rep: Rep, found: Given) -> None:
    for ours, theirs in (
        ("length_from", ("lengthReference", "lengthValueOf")),
        ("count_from", ("repeatReference", "repeatCountReference", "repeatRef")),
    ):
        if rep.get(*theirs):
            # References carry a path or a prefix; the element's own name is the last step.
            found[ours] = re.split(r"[/:.#]", rep.get(*theirs))[-1]


def _justified(rep: Rep, found: Given) -> None:
    justify = rep.get("stringJustification", "justification").lower()
    if justify.startswith(("left", "right")):
        found["justify"] = "left" if justify.startswith("left") else "right"
    padding = rep.get("paddingCharacter", "padCharacter", "padding")
    if padding:
        found["padding"] = _character(padding)
    if rep.get("formatString", "dateTimeFormat"):
        found["format"] = rep.get("formatString", "dateTimeFormat")


def _character(text: str) -> str:
    """SPACE, NUL, '0', <SP>, 0x40 or the character itself."""
    if text.lower() in _CHARACTERS:
        return _CHARACTERS[text.lower()]
    if len(text) == 3 and text[0] == text[2] and text[0] in "'\"":
        return text[1]
    return resolve(text)


# --- structures ------------------------------------------------------------------------------------------


def structure_given(rep: Rep) -> Given:
    """What a tdsStructRep says."""
    found: Given = {}
    separation = rep.get("dataElementSeparation").lower()
    if separation:
        if separation not in _SEPARATIONS:
            raise rep.wrong(f"data element separation {rep.get('dataElementSeparation')} is not supported")
        found["separation"] = _SEPARATIONS[separation]
    for ours, theirs in (
        ("delimiter", "delimiter"),
        ("group_indicator", "groupIndicator"),
        ("group_terminator", "groupTerminator"),
        ("tag_separator", "tagDataSeparator"),
    ):
        if theirs.lower() in rep.properties:
            found[ours] = resolve(rep.get(theirs))
    _numbers(rep, found, tag_length=("tagLength",), encoded_length=("lengthOfEncodedLength",),
             encoded_extra=("extraCharsInEncodedLength",))  # fmt: skip
    suppress = rep.get("suppressAbsentElementDelimiters", "suppressTrailingDelimiters").lower()
    if suppress:
        found["suppress_absent"] = "end" if suppress.startswith(("end", "true")) else "never"
    if rep.flag("observeElementLength") is not None:
        found["observe_length"] = rep.flag("observeElementLength")
    return found


# --- the whole set ------------------------------------------------------------------------------------------


def read_formats(root: etree._Element, file: str) -> dict[str, Format]:
    """The formats of a messageSet.mset."""
    found: dict[str, Format] = {}
    for node in root.iterfind("{*}MRMessageSetRep"):
        rep = Rep(node, file)
        kind = next((kind for word, kind in KINDS.items() if f"mr{word}" in rep.physical_type), None)
        name = node.get("name")
        if kind is None or not name:
            raise rep.wrong(f"the format {name or ''} is of a kind that is not supported")
        found[name] = _FORMAT_READERS[kind](rep)
    return found


def _cwf_format(rep: Rep) -> CwfFormat:
    given: dict[str, Any] = {}
    for ours, theirs in (
        ("boolean_true", ("booleanTrueValue", "booleanTrueRepresentation")),
        ("boolean_false", ("booleanFalseValue", "booleanFalseRepresentation")),
    ):
        text = rep.get(*theirs)
        if text:
            try:
                given[ours] = bytes.fromhex(text)
            except ValueError:
                raise rep.wrong(f"{theirs[0]} is {text!r}, not hexadecimal") from None
    return CwfFormat(**given)


_TRIMS = {"trimboth": "both", "both": "both", "trimleading": "left", "leading": "left", "trimtrailing": "right",
          "trailing": "right", "notrim": "none", "none": "none"}  # fmt: skip


def _tds_format(rep: Rep) -> TdsFormat:
    given: dict[str, Any] = {}
    for ours, theirs in (
        ("delimiter", ("delimiter",)),
        ("group_indicator", ("groupIndicator",)),
        ("group_terminator", ("groupTerminator",)),
        ("tag_separator", ("tagDataSeparator",)),
        ("decimal_point", ("decimalPoint",)),
        ("escape", ("escapeCharacter",)),
        ("quote", ("quoteCharacter", "quoteChar")),
        ("reserved", ("reservedChars", "reservedCharacters")),
        ("boolean_true", ("booleanTrueRepresentation",)),
        ("boolean_false", ("booleanFalseRepresentation",)),
    ):
        if rep.get(*theirs):
            given[ours] = resolve(rep.get(*theirs))
    _numbers(rep, given, tag_length=("tagLength",), ccsid=("defaultCCSID",))
    trim = _TRIMS.get(rep.get("trimFixLengthString").lower())
    if trim:
        given["trim"] = trim
    if rep.flag("strictNumericChecking") is not None:
        given["strict_numbers"] = rep.flag("strictNumericChecking")
    return TdsFormat(**given)


def _xml_format(rep: Rep) -> XmlFormat:
    suppressed = rep.flag("suppressXMLDeclaration", "suppressDeclaration")
    namespaces: Mapping[str, str] = {
        str(node.get("prefix")): str(node.get("namespaceURI") or node.get("namespace") or "")
        for node in rep.node.iter(etree.Element)
        if node.get("prefix")
    }
    return XmlFormat(root=rep.get("rootTagName"), declaration=not suppressed, namespaces=namespaces)


_FORMAT_READERS: Mapping[Kind, Any] = {Kind.CWF: _cwf_format, Kind.TDS: _tds_format, Kind.XML: _xml_format}
