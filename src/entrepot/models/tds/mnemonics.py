# SPDX-License-Identifier: Apache-2.0
"""Names for characters that cannot be seen: `<CR><LF>` in a model is a line end.

Models write delimiters, tags and paddings with the mnemonics of the MRM:
control characters by their ASCII names, `<SP>` a space, `<U+0041>` any
character, `<0x1D>` a character by its number, and the names that EDIFACT, X12
and HL7 give to their separators. What looks like a mnemonic but is none stays
as it is, so that `<` itself can be a delimiter.
"""

from __future__ import annotations

import re

_CONTROLS = ("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI",
             "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS",
             "US")  # fmt: skip

NAMES: dict[str, str] = {name: chr(code) for code, name in enumerate(_CONTROLS)} | {
    "SP": " ",
    "DEL": "\x7f",
    "NEL": "\x85",
    # White space and line end are one thing when read and another when written; what is written counts here.
    "WSP": " ",
    "TAB": "\t",
    "NL": "\n",
    "EOL": "\r\n",
    "EDIFACT_CS": ":",
    "EDIFACT_DEC_NOTATION": ".",
    "EDIFACT_DS": "+",
    "EDIFACT_ESC_CHAR": "?",
    "EDIFACT_GROUP_TERM": "'",
    "EDIFACT_TAGDATA_SEP": "+",
    "HL7_CS": "^",
    "HL7_FS": "|",
    "HL7_RS": "~",
    "HL7_SCS": "&",
    "X12_CS": ":",
    "X12_DS": "*",
    "X12_ERS": "{",
    "X12_GROUP_TERM": "!",
}
"""Mnemonic without its brackets to what it stands for."""

_MNEMONIC = re.compile(
    r"<(?:U\+([0-9A-F]{4,6})|0X([0-9A-F]{2})|(" + "|".join(sorted(NAMES, key=len, reverse=True)) + r"))>", re.IGNORECASE
)
_CODE_POINT_MAX = 0x10FFFF

_SPELLED = {character: f"<{name}>" for name, character in zip(_CONTROLS, map(chr, range(32)), strict=True)}
_SPELLED |= {"\x7f": "<DEL>", "\x85": "<NEL>"}


def resolve(text: str) -> str:
    """The text that is meant: `<CR><LF>:` is three characters."""
    return _MNEMONIC.sub(_meaning, text) if "<" in text else text


def _meaning(match: re.Match[str]) -> str:
    unicode_digits, byte_digits, name = match.groups()
    if name is not None:
        return NAMES[name.upper()]
    code = int(unicode_digits or byte_digits, 16)
    return chr(code) if code <= _CODE_POINT_MAX and not 0xD800 <= code <= 0xDFFF else match.group()


def spell(text: str) -> str:
    """The text as people can read it; `resolve` gives back what it was."""
    if "<" in text:
        text = _MNEMONIC.sub(lambda match: "<U+003C>" + match.group()[1:], text)
    inner = "".join(_SPELLED.get(c) or (c if c.isprintable() else f"<U+{ord(c):04X}>") for c in text)
    stripped = inner.strip(" ")
    if len(stripped) == len(inner):
        return inner
    before = len(inner) - len(inner.lstrip(" "))
    return "<SP>" * before + stripped + "<SP>" * (len(inner) - len(stripped) - before)
