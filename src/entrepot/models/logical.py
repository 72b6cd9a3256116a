# SPDX-License-Identifier: Apache-2.0
"""The model of a message set: a logical structure once, and how each physical format writes it.

    MessageSet ── messages ──▶ Message ──▶ Structure ── members ──▶ Member ──▶ Simple | Structure
       │                                      │ physical               │ physical
       └ formats: CWF1, TDS1, XML1 …          └─────── one entry for each format ───────┘

Models come from YAML (notation/), COBOL copybooks (copybook/) and MRM
definitions (mxsd/); codecs are compiled from them once for each message and
format. All of it is frozen, so it can be shared and sent to Spark's workers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class ValueType(enum.Enum):
    """What a simple element holds; the Python type is tree.py's."""

    STRING = "string"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    BOOLEAN = "boolean"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"


NUMBERS = (ValueType.INTEGER, ValueType.DECIMAL, ValueType.FLOAT)
DATE_FORMATS = {
    ValueType.DATE: "yyyy-MM-dd",
    ValueType.TIME: "HH:mm:ss",
    ValueType.DATETIME: "yyyy-MM-dd'T'HH:mm:ss",
}
"""How dates and times are written where a model says nothing else."""


class Composition(enum.Enum):
    SEQUENCE = "sequence"
    """Members in their order."""
    CHOICE = "choice"
    """Exactly one of the members; in CWF they lie over each other (REDEFINES)."""
    UNORDERED = "unordered"
    """Each member, in any order."""


class Kind(enum.Enum):
    CWF = "CWF"
    TDS = "TDS"
    XML = "XML"


class Separation(enum.Enum):
    """How TDS tells the elements of a structure apart."""

    FIXED_LENGTH = "fixed length"
    TAGGED_DELIMITED = "tagged delimited"
    TAGGED_FIXED_LENGTH = "tagged fixed length"
    TAGGED_ENCODED_LENGTH = "tagged encoded length"
    ALL_DELIMITED = "all elements delimited"
    VARIABLE_DELIMITED = "variable length elements delimited"
    DATA_PATTERN = "use data pattern"


# --- physical formats: what a whole set says ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CwfFormat:
    """Defaults of a CWF format; code page and byte order come with each message."""

    kind = Kind.CWF
    alignment: int = 1
    padding: str = " "
    boolean_true: bytes = b"\x00\x00\x00\x01"
    boolean_false: bytes = b"\x00\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class TdsFormat:
    """Defaults of a TDS format. Text is what it is after mnemonics such as <CR><LF> are resolved."""

    kind = Kind.TDS
    delimiter: str = ""
    group_indicator: str = ""
    group_terminator: str = ""
    tag_separator: str = ""
    tag_length: int = 0
    decimal_point: str = "."
    escape: str = ""
    """Makes the next character mean itself."""
    quote: str = ""
    reserved: str = ""
    """Characters that are escaped or quoted in data when written."""
    boolean_true: str = "1"
    boolean_false: str = "0"
    ccsid: int = 0
    """0: the message's own."""
    trim: str = "right"
    """Which padding is taken off strings when read: none, left, right, both."""
    strict_numbers: bool = False


@dataclass(frozen=True, slots=True)
class XmlFormat:
    """Defaults of an MRM XML format."""

    kind = Kind.XML
    root: str = ""
    """A tag around the message's own; nothing for none."""
    declaration: bool = True
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Prefix to namespace, as written."""
    encode_null: str = "empty"
    """A null element is written: empty, absent, nil (xsi:nil)."""


Format = CwfFormat | TdsFormat | XmlFormat


# --- physical formats: what one structure or member says ------------------------------------------


@dataclass(frozen=True, slots=True)
class CwfField:
    """How CWF writes one member."""

    storage: str = "string"
    """string, binary, integer (COMP), packed (COMP-3), external (zoned DISPLAY), float (COMP-1/2), hexfloat
    (System/390), boolean, or structure for one with members."""
    length: int = 0
    """In bytes; in characters for a string whose `length_unit` says so."""
    length_unit: str = "bytes"
    length_from: str = ""
    """Name of an earlier member that holds the length."""
    signed: bool = True
    decimals: int = 0
    """Virtual decimal point: digits behind it; negative for trailing zeros that are not stored (PIC 9P)."""
    sign: str = "trailing"
    """trailing, leading, trailing separate, leading separate; for external decimals."""
    justify: str = "left"
    padding: str = " "
    """One character; or one byte as two hexadecimal digits after 0x."""
    format: str = ""
    """Pattern of dates and times that are stored as text or packed digits: yyyyMMdd, yyyyDDD, HHmmss."""
    alignment: int = 0
    """Byte boundary: 1, 2, 4, 8; 0 takes the format's."""
    skip_before: int = 0
    skip_after: int = 0
    count_from: str = ""
    """Name of an earlier member that holds the number of repeats (OCCURS DEPENDING ON)."""
    null_policy: str = "none"
    """none, fill (every byte is `null_value`), literal (the text is `null_value`), logical (the value is)."""
    null_value: str = ""
    ebcdic_sign: bool = False
    """A sign within a digit looks as in EBCDIC ({ A-I, } J-R) when the code page is an ASCII one, too."""
    skip_value: str = ""
    """What skipped bytes are written with: text, or bytes after 0x that are repeated; nothing for padding."""


@dataclass(frozen=True, slots=True)
class TdsField:
    """How TDS writes one member."""

    tag: str = ""
    length: int = 0
    length_from: str = ""
    pattern: str = ""
    """A regular expression that its data match, for DATA_PATTERN."""
    repeat_delimiter: str = ""
    justify: str = "left"
    padding: str = " "
    format: str = ""
    """Pattern of dates and times, or of numbers: 000.00."""
    decimals: int = 0
    """Virtual decimal point."""
    null_policy: str = "empty"
    """empty (nothing between delimiters), literal, none."""
    null_value: str = ""
    count_from: str = ""


@dataclass(frozen=True, slots=True)
class TdsStructure:
    """How TDS writes one structure; None takes the format's."""

    separation: Separation = Separation.FIXED_LENGTH
    delimiter: str | None = None
    group_indicator: str | None = None
    group_terminator: str | None = None
    tag_separator: str | None = None
    tag_length: int | None = None
    encoded_length: int = 0
    """Characters of a length that precedes the data, for TAGGED_ENCODED_LENGTH."""
    encoded_extra: int = 0
    """What that length counts beside the data: its own characters, for example."""
    suppress_absent: str = "never"
    """Whether delimiters of absent elements at the end are left out: never, end."""
    observe_length: bool = False
    """In delimited structures: pad and cut data to their length."""


@dataclass(frozen=True, slots=True)
class XmlField:
    """How MRM XML writes one member."""

    name: str = ""
    """The tag, where it differs from the logical name."""
    attribute: bool = False
    format: str = ""


# --- the logical structure -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Simple:
    """A value."""

    type: ValueType
    format: str = ""
    """Logical pattern of dates and times: yyyy-MM-dd."""
    length_max: int | None = None
    values: tuple[str, ...] = ()
    """Enumeration: nothing else is valid."""
    pattern: str = ""
    """A regular expression that every valid value matches as a whole."""


@dataclass(frozen=True, slots=True)
class StructureMember:
    """An element of a structure; without a name it is a group that the tree does not show."""

    name: str
    content: Simple | Structure
    min_occurs: int = 1
    max_occurs: int | None = 1
    """None: any number."""
    default: str | None = None
    physical: Mapping[str, CwfField | TdsField | XmlField] = field(default_factory=dict)
    """By the name of the format."""
    line: int = 0
    """Where it stands in the file it came from."""


@dataclass(frozen=True, slots=True)
class Structure:
    name: str
    members: tuple[StructureMember, ...]
    composition: Composition = Composition.SEQUENCE
    physical: Mapping[str, TdsStructure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageModel:
    """A message: a named structure at the top of a set."""

    name: str
    structure: Structure
    identifier: str = ""
    """What the message's own bytes call it, where they do (SWIFT's 543)."""


@dataclass(frozen=True, slots=True)
class MessageSet:
    name: str
    messages: Mapping[str, MessageModel]
    formats: Mapping[str, Format]
    file: str = ""
    namespace: str = ""
    """Target namespace of its elements; Member.name has it already, as {namespace}name."""
    compiler: str = ""
    """module:function that compiles this set's codecs; nothing for the one of the format."""


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """What an MRM folder has to know: which message, of which set, in which format (`Folder.model`)."""

    set: MessageSet
    message: str
    format: str
