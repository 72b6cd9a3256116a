# SPDX-License-Identifier: Apache-2.0
"""The XML declaration `<?xml version="1.0" encoding="UTF-8"?>` as the first element of a folder."""

from __future__ import annotations

import codecs
import re

from entrepot.errors import MessageUnwritable
from entrepot.models.element_types import (
    XML_DECLARATION,
    XML_ENCODING,
    XML_STANDALONE,
    XML_VERSION,
    XMLNSC_ATTRIBUTE,
    XMLNSC_DECLARATION,
)
from entrepot.models.tree import Element, Folder
from entrepot.models.value_text import xml_text
from entrepot.models.xml.reading import is_ascii_like, recoded

_FIELD = re.compile(r"""(version|encoding|standalone)\s*=\s*["']([^"']*)["']""")
_COMPACT_NAMES = {"version": "Version", "encoding": "Encoding", "standalone": "StandAlone"}
_MIXED = {
    "version": ("Version", XML_VERSION),
    "encoding": ("Encoding", XML_ENCODING),
    "standalone": ("Standalone", XML_STANDALONE),
}
_BY_KIND = {XML_VERSION: "version", XML_ENCODING: "encoding", XML_STANDALONE: "standalone"}


class Declaration(Element):
    """Read on first access, which is rare."""

    __slots__ = ("compact", "text")

    def __init__(self, text: str, compact: bool, parent: Folder) -> None:
        if compact:
            Element.__init__(self, "XmlDeclaration", None, XMLNSC_DECLARATION)
        else:
            Element.__init__(self, "XmlDecl", None, XML_DECLARATION)
        self.text = text
        self.compact = compact
        self.parent = parent

    @classmethod
    def of(cls, folder: Folder) -> Declaration | None:
        """The declaration of a body that has one and was found to be well-formed."""
        body = folder.body
        assert body is not None
        if not is_ascii_like(body):
            body = recoded(folder)
            if body[:3] == codecs.BOM_UTF8:
                body = body[3:]
        if body[:5] != b"<?xml" or body[5:6] not in (b" ", b"\t", b"\r", b"\n"):
            return None
        text = body[5 : body.find(b"?>")].decode("latin-1")
        return cls(text, folder.domain.name in ("XMLNSC", "SOAP"), folder)

    def is_leaf(self) -> bool:
        return not self.children

    def load(self) -> list[Element]:
        if self.compact:
            return self.fill(
                Element(_COMPACT_NAMES[name], value, XMLNSC_ATTRIBUTE) for name, value in _FIELD.findall(self.text)
            )
        return self.fill(Element(_MIXED[name][0], value, _MIXED[name][1]) for name, value in _FIELD.findall(self.text))


def declaration_text(element: Element, codec: str) -> str:
    """The declaration as it is written for bytes in `codec`.

    A declared encoding that means another one than `codec` would make the
    bytes unreadable, so the true one is named instead.
    """
    if isinstance(element, Declaration) and element._children is None:
        fields = dict(_FIELD.findall(element.text))
    else:
        fields = {}
        for child in element.children:
            name = _BY_KIND.get(child.kind, child.key.lower())
            fields[name] = xml_text(child.value)
    _require(element, "version", fields.get("version") or "1.0", _VERSION)
    _require(element, "standalone", fields.get("standalone") or "yes", _STANDALONE)
    text = f'<?xml version="{fields.get("version") or "1.0"}"'
    encoding = fields.get("encoding")
    if encoding:
        text += f' encoding="{encoding if _same(encoding, codec) else _name(codec)}"'
    if fields.get("standalone"):
        text += f' standalone="{fields["standalone"]}"'
    return text + "?>"


_VERSION = re.compile(r"1\.[0-9]+")
_STANDALONE = re.compile("yes|no")


def _require(element: Element, name: str, value: str, form: re.Pattern[str]) -> None:
    if not form.fullmatch(value):
        raise MessageUnwritable(element.domain_name(), element.path(), f"its {name} cannot be {value!r}")


def _same(encoding: str, codec: str) -> bool:
    if codec == "utf-8":
        return encoding.upper() in ("UTF-8", "UTF8")
    try:
        return codecs.lookup(encoding).name == codecs.lookup(codec).name
    except LookupError:
        return False


def _name(codec: str) -> str:
    """What XML calls an encoding: Python's name, but in the form that other parsers know."""
    if codec.startswith("utf-16"):
        return "UTF-16"
    name = codecs.lookup(codec).name
    if name.startswith("cp") and name[2:].isdigit():
        number = int(name[2:])
        return f"windows-{number}" if 1250 <= number <= 1258 else f"IBM{number:03}"
    return name.upper().replace("ISO8859", "ISO-8859")
