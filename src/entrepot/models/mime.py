# SPDX-License-Identifier: Apache-2.0
"""The MIME domain: headers, and one body or several parts.

    MIME ─┬ Content-Type = 'Multipart/Related; boundary=edge'
          └ Parts ─┬ Part ─┬ Content-Type = 'text/xml'
                   │       └ Data ─ BLOB ─ BLOB = X'3C613E...'
                   └ Part ─ ...

A message of one part has Data where the other has Parts. Header values are
kept whole, parameters and all; headers of one name are joined by commas; what
stands before the first boundary and after the last one are nameless values
below Parts. Data is what is between the boundaries: base64 is not undone here.
"""

from __future__ import annotations

import re
from typing import Any

from entrepot.errors import MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.models.domains import WholeOnly
from entrepot.models.element_types import NAME_VALUE, VALUE
from entrepot.models.tree import Element, Folder

NESTING_MAX = 32
"""How many multiparts may lie inside each other. Each level reads its bytes once more."""

BOUNDARY_CHARACTERS_MAX = 70

_LINE_END = re.compile(rb"\r?\n")
_HEADER = re.compile(rb"([!-9;-~]+)[ \t]*:[ \t]*")
_FOLD = re.compile(r"\r?\n(?=[ \t])")
_PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]*)')
_NAME = re.compile(r"[!-9;-~]+\Z")


class _Mime(WholeOnly):
    name = "MIME"

    def parse(self, folder: Folder) -> None:
        assert folder.body is not None
        body = folder.body
        children = _read_entity(body, 0, len(body), 1, "MIME")
        if not any(child.key.lower() == "content-type" for child in children):
            raise MessageUnreadable("MIME", "Content-Type", 0, "there is no header that tells what this is")
        folder.fill(children)

    def render(self, folder: Folder) -> bytes:
        if _header(folder, "content-type") is None:
            raise MessageUnwritable("MIME", "MIME.Content-Type", "a message must have one")
        return b"".join(_write_entity(folder, "MIME", 1))


MIME = _Mime()


def parameters(value: str) -> dict[str, str]:
    """What a header says behind its semicolons, by name in small letters."""
    found: dict[str, str] = {}
    for name, text in _PARAMETER.findall(value):
        if text[:1] == '"':
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        found.setdefault(name.lower(), text)
    return found


# --- reading -----------------------------------------------------------------------------------


def _read_entity(data: bytes, start: int, end: int, depth: int, path: str) -> list[Element]:
    """Headers, then Parts or Data."""
    headers, position = _read_headers(data, start, end, path)
    children = [Element(name, ", ".join(values).strip(), NAME_VALUE) for name, values in headers]
    kind = next((child.value for child in children if child.key.lower() == "content-type"), "")
    if kind.lower().lstrip().startswith("multipart/"):
        if depth > NESTING_MAX:
            raise MessageTooComplex("MIME", path, start, f"more than {NESTING_MAX} multiparts inside each other")
        boundary = parameters(kind).get("boundary", "")
        if not 1 <= len(boundary) <= BOUNDARY_CHARACTERS_MAX:
            raise MessageUnreadable("MIME", f"{path}.Content-Type", start, "a multipart needs a boundary")
        children.append(_read_parts(data, position, end, boundary, depth, path))
    else:
        children.append(_data(data[position:end]))
    return children


def _read_headers(data: bytes, start: int, end: int, path: str) -> tuple[list[tuple[str, list[str]]], int]:
    """The header block and the offset behind its empty line."""
    headers: dict[str, tuple[str, list[str]]] = {}
    position = start
    while position < end:
        line_end, after = _line(data, position, end)
        if line_end == position:
            return list(headers.values()), after
        # A line that begins with a blank goes on with the header before it.
        while after < end and data[after] in b" \t":
            line_end, after = _line(data, after, end)
        found = _HEADER.match(data, position, line_end)
        if found is None:
            raise MessageUnreadable("MIME", path, position, "this line is no header: it has no name and colon")
        try:
            value = _FOLD.sub("", data[found.end() : line_end].decode("ascii"))
        except UnicodeDecodeError as error:
            raise MessageUnreadable("MIME", path, found.end() + error.start, "a header is not ASCII") from None
        name = found.group(1).decode("ascii")
        headers.setdefault(name.lower(), (name, []))[1].append(value.strip())
        position = after
    return list(headers.values()), end


def _line(data: bytes, position: int, end: int) -> tuple[int, int]:
    found = _LINE_END.search(data, position, end)
    return (end, end) if found is None else found.span()


def _read_parts(data: bytes, start: int, end: int, boundary: str, depth: int, path: str) -> Element:
    edge = _edge(boundary)
    parts = Element("Parts")
    children: list[Element] = []
    opened = -1
    # Within the whole body: parts of parts of parts would each hold a copy of what is left of it.
    for found in edge.finditer(data, start, end):
        begins = found.start()
        if begins > start:
            # A boundary begins a line, and the line end before it belongs to it.
            if data[begins - 1] != 0x0A:
                continue
            begins = max(start, begins - (2 if data[begins - 2 : begins] == b"\r\n" else 1))
        if opened < 0:
            if begins > start:
                children.append(Element("", data[start:begins].decode("latin-1"), VALUE))
        else:
            part = Element("Part")
            part.fill(_read_entity(data, opened, max(opened, begins), depth + 1, f"{path}.Parts.Part"))
            children.append(part)
        _, opened = _line(data, found.end(), end)
        if found.group(1):
            if opened < end:
                children.append(Element("", data[opened:end].decode("latin-1"), VALUE))
            parts.fill(children)
            return parts
    problem = "the last boundary is missing" if opened >= 0 else f"there is no boundary {boundary!r}"
    raise MessageUnreadable("MIME", f"{path}.Parts", end, problem)


def _edge(boundary: str, before: bytes = b"") -> re.Pattern[bytes]:
    """A boundary with the blanks behind it. Without anything before it, it can be searched for quickly."""
    return re.compile(before + rb"--" + re.escape(boundary.encode("ascii", "replace")) + rb"(--)?[ \t]*(?=\r?\n|\Z)")


def _data(content: bytes) -> Element:
    element = Element("Data")
    blob = Element("BLOB")
    blob.fill([Element("BLOB", content, NAME_VALUE)])
    element.fill([blob])
    return element


# --- writing -----------------------------------------------------------------------------------


def _header(entity: Element, name: str) -> str | None:
    for child in entity.children:
        if child.key.lower() == name and child.value is not None:
            return str(child.value)
    return None


def _write_entity(entity: Element, path: str, depth: int) -> list[bytes]:
    pieces: list[bytes] = []
    content: list[bytes] = []
    for child in entity.children:
        if child.key == "Parts":
            if content:
                raise MessageUnwritable("MIME", f"{path}.Parts", "beside it there is Data or another Parts")
            content = _write_parts(child, _header(entity, "content-type") or "", f"{path}.Parts", depth)
        elif child.key == "Data":
            if content:
                raise MessageUnwritable("MIME", f"{path}.Data", "beside it there is Parts or another Data")
            content = [_content(child, f"{path}.Data")]
        else:
            pieces.append(_write_header(child, path))
    return [*pieces, b"\r\n", *content]


def _write_header(header: Element, path: str) -> bytes:
    path = f"{path}.{header.key}"
    if not _NAME.match(header.key):
        raise MessageUnwritable("MIME", path, f"{header.key[:60]!r} is no name for a header")
    value = header.value
    if header.children or isinstance(value, bytes):
        raise MessageUnwritable("MIME", path, "a header is one line of text")
    text = "" if value is None else str(value)
    if not text.isascii() or "\n" in text or "\r" in text or "\0" in text:
        raise MessageUnwritable("MIME", path, "a header is one line of ASCII")
    return f"{header.key}: {text}\r\n".encode("ascii")


def _write_parts(parts: Element, kind: str, path: str, depth: int) -> list[bytes]:
    if depth > NESTING_MAX:
        raise MessageUnwritable("MIME", path, f"more than {NESTING_MAX} multiparts inside each other")
    boundary = parameters(kind).get("boundary", "")
    if not kind.lower().lstrip().startswith("multipart/") or not 1 <= len(boundary) <= BOUNDARY_CHARACTERS_MAX:
        raise MessageUnwritable("MIME", path, "Content-Type names no multipart with a boundary")
    edge, within = b"--" + boundary.encode("ascii", "replace"), _edge(boundary, rb"(?:^|\n)")
    pieces: list[bytes] = []
    outside: list[list[bytes]] = [[], []]
    written = 0
    for child in parts.children:
        if child.key == "Part":
            part = b"".join(_write_entity(child, f"{path}.Part", depth + 1))
            if within.search(part):
                raise MessageUnwritable("MIME", f"{path}.Part", f"its data has the boundary {boundary!r}")
            pieces += [edge, b"\r\n", part, b"\r\n"]
            written += 1
        elif not child.key:
            outside[written > 0].append(_loose(child.value, path))
        else:
            raise MessageUnwritable("MIME", f"{path}.{child.key}", "only Part has a place here")
    if not written:
        raise MessageUnwritable("MIME", path, "a multipart has a part at least")
    before, after = (b"".join(texts) for texts in outside)
    if within.search(before):
        raise MessageUnwritable("MIME", path, f"the text before the first part has the boundary {boundary!r}")
    return [*([before, b"\r\n"] if before else ()), *pieces, edge, b"--\r\n", after]


def _loose(value: Any, path: str) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return str(value or "").encode("latin-1")
    except UnicodeEncodeError:
        raise MessageUnwritable("MIME", path, "text around the parts is Latin-1") from None


def _content(element: Element, path: str) -> bytes:
    """The bytes of Data: its own value, or what is below it, which may be folders of other domains."""
    if isinstance(element, Folder):
        return element.render()
    if element.value is not None:
        if not isinstance(element.value, bytes):
            raise MessageUnwritable("MIME", path, "Data is a BLOB")
        return element.value
    return b"".join(_content(child, f"{path}.{child.key}") for child in element.children)
