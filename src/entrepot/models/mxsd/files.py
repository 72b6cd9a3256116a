# SPDX-License-Identifier: Apache-2.0
"""The files of an MRM definition: the definition, what it includes and imports, and messageSet.mset.

All of them are read without document types and without network; what is
included lies in files beside the first one. What cannot be found is told
only when something in it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from entrepot.errors import ModelInvalid
from entrepot.models.logical import Format
from entrepot.models.mxsd.physical import read_formats

SCHEMA = "{http://www.w3.org/2001/XMLSchema}"
BYTES_MAX = 64 * 1024 * 1024
FILES_MAX = 500
_LOCATION_CHARACTERS_MAX = 1000
_LEVELS_ABOVE = 6
"""How many folders above a definition messageSet.mset may lie: definitions are in folders named by namespace."""

Global = tuple[etree._Element, str, "Schema"]
"""An element of lxml's tree, its file, and the schema it stands in."""


def parse_xml(content: bytes, file: str) -> etree._Element:
    """The document element, or an error in our words."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise ModelInvalid(file, line or 1, column or 1, f"this is no XML: {error.msg}") from None
    except ValueError as error:
        raise ModelInvalid(file, 1, 1, f"this is no XML: {error}") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise ModelInvalid(file, 1, 1, "it has a DOCTYPE, which is never accepted")
    return root


class Schema:
    """One schema document."""

    def __init__(self, root: etree._Element, file: str, namespace: str | None = None) -> None:
        if root.tag != f"{SCHEMA}schema":
            raise ModelInvalid(file, root.sourceline or 1, 1, f"this is no XML Schema: it begins with {root.tag}")
        self.root = root
        self.file = file
        # What is included without a namespace of its own takes the one of the including file.
        self.namespace = str(root.get("targetNamespace") or namespace or "")
        self.qualified_elements = root.get("elementFormDefault") == "qualified"
        self.qualified_attributes = root.get("attributeFormDefault") == "qualified"


class Library:
    """All global definitions of a schema and of what it includes."""

    def __init__(self, content: bytes, file: str) -> None:
        self.missing: list[str] = []
        self.tables: dict[str, dict[str, Global]] = {
            kind: {} for kind in ("element", "attribute", "type", "group", "attributeGroup")
        }
        self.first = Schema(parse_xml(content, file), file)
        self._seen: set[tuple[str, str]] = set()
        self._add(self.first)

    def _add(self, first: Schema) -> None:
        waiting = [first]
        while waiting:
            schema = waiting.pop()
            key = (str(Path(schema.file).resolve()), schema.namespace)
            if key in self._seen:
                continue
            self._seen.add(key)
            if len(self._seen) > FILES_MAX:
                raise ModelInvalid(first.file, 1, 1, f"more than {FILES_MAX} files are included")
            self._list(schema)
            waiting += self._included(schema)

    def _list(self, schema: Schema) -> None:
        for node in schema.root.iterchildren(etree.Element):
            kind = str(etree.QName(node).localname)
            if kind == "redefine":
                raise ModelInvalid(schema.file, node.sourceline or 1, 1, "xsd:redefine is not supported")
            table = self.tables.get("type" if kind in ("simpleType", "complexType") else kind)
            name = node.get("name")
            if table is not None and name:
                table.setdefault(f"{{{schema.namespace}}}{name}", (node, schema.file, schema))

    def _included(self, schema: Schema) -> Iterator[Schema]:
        for node in schema.root.iterchildren(f"{SCHEMA}include", f"{SCHEMA}import"):
            location = node.get("schemaLocation")
            if not location:
                continue
            path = Path(schema.file).parent / str(location)
            if "://" in str(location) or len(str(location)) > _LOCATION_CHARACTERS_MAX or not path.is_file():
                self.missing.append(str(location))
                continue
            with path.open("rb") as file:
                content = file.read(BYTES_MAX + 1)
            if len(content) > BYTES_MAX:
                raise ModelInvalid(str(path), 1, 1, f"the file is larger than {BYTES_MAX} bytes")
            namespace = schema.namespace if node.tag == f"{SCHEMA}include" else None
            yield Schema(parse_xml(content, str(path)), str(path), namespace)


def find_message_set(file: str) -> tuple[str, dict[str, Format]] | None:
    """Name and formats of the messageSet.mset beside a definition or above it; None when there is none."""
    path = Path(file)
    if not path.is_file():
        return None
    for folder in list(path.resolve().parents)[:_LEVELS_ABOVE]:
        candidate = folder / "messageSet.mset"
        if candidate.is_file():
            root = parse_xml(candidate.read_bytes(), str(candidate))
            name = str(root.get("name") or folder.name)
            return name, read_formats(root, str(candidate))
    return None
