# SPDX-License-Identifier: Apache-2.0
"""The MQRFH2 folder: 36 fixed bytes, then folders of names and values.

    RFH  2  StrucLength  Encoding  CodedCharSetId  Format  Flags  NameValueCCSID
    32  <mcd><Msd>xml</Msd></mcd>
    24  <usr><Colour>red</Colour></usr>

Encoding, CodedCharSetId and Format tell about what follows the header. A
message without such a header that has message properties shows them as one:
property `Colour` is MQRFH2.usr.Colour, and `shop.item.Colour` is
MQRFH2.shop.item.Colour, as in MQ.
"""

from __future__ import annotations

import re
import struct
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.errors import MessageUnreadable, MessageUnwritable
from entrepot.message import PropertyValue
from entrepot.models.code_pages import encode
from entrepot.models.domains import WholeOnly
from entrepot.models.element_types import NAME_VALUE, XMLNSC_ATTRIBUTE
from entrepot.models.encodings import NATIVE, struct_order
from entrepot.models.headers.layout import INTEGER, Field, Layout, as_integer, as_text, text_field
from entrepot.models.headers.origin import ELSEWHERE, Origin
from entrepot.models.headers.rfh2_folders import DOMAIN, read_folders, simple, write_folder
from entrepot.models.tree import Element, Folder
from entrepot.models.tree_state import DEPTH_MAX

FIXED = ("Version", "Encoding", "CodedCharSetId", "Format", "Flags", "NameValueCCSID")
"""The children that are no folders, in their order."""

INHERIT = -2
"""A CodedCharSetId that says: the same as mine."""

_LAYOUT = Layout(
    DOMAIN,
    "RFH ",
    (
        Field("Version", INTEGER, default=2),
        Field("StrucLength", INTEGER),
        Field("Encoding", INTEGER, default=NATIVE),
        Field("CodedCharSetId", INTEGER, default=INHERIT),
        text_field("Format", 8),
        Field("Flags", INTEGER),
        Field("NameValueCCSID", INTEGER, default=1208),
    ),
)
FIXED_BYTES = _LAYOUT.size

_ASCII_PAGES = (1208, 819, 437, 850, 1252)

_TAGS = re.compile(rb"<([A-Za-z_][\w]*)>((?:<([A-Za-z_][\w]*)>[^<>&\x00-\x1f\x7f-\xff]*</\3>)+)</\1> *", re.ASCII)
"""A folder of tags in ASCII without attributes, references or structures inside: what most headers have."""

_MCD = re.compile(rb"<mcd>(.*?)</mcd>", re.DOTALL)
_PLAIN_ITEM = re.compile(rb"<(Msd|Set|Type|Fmt)>([^<>&]*)</\1>")


class _Mqrfh2(WholeOnly):
    name = DOMAIN

    def parse(self, folder: Folder) -> None:
        if folder.body:
            base = folder.model if isinstance(folder.model, int) else 0
            folder.fill(_read(folder.body, folder.encoding, folder.ccsid, base))
        elif isinstance(folder.model, Origin):
            folder.fill(_from_properties(folder.model))
        elif folder.body is not None:
            raise MessageUnreadable(DOMAIN, DOMAIN, 0, f"0 bytes instead of {FIXED_BYTES}")

    def render(self, folder: Folder) -> bytes:
        return write_mqrfh2(folder.children, folder.encoding, folder.ccsid)

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        if isinstance(folder.model, Origin) and not folder.body and len(keys) == 2 and keys[0] == "usr":
            properties = folder.model.message.properties
            if "." not in keys[1] and keys[1] in properties and f"usr.{keys[1]}" not in properties:
                return True, properties[keys[1]]
        elif len(keys) == 2 and keys[0] not in FIXED and folder.body and folder.ccsid in _ASCII_PAGES:
            return _peek(folder.body, folder.encoding, *keys)
        return False, None


MQRFH2 = _Mqrfh2()


# --- bytes -------------------------------------------------------------------------------------


FORMATS_KEPT = 256
_FORMATS: dict[tuple[bytes, int], str] = {}
"""Names of formats as they were met in bytes; a sender that makes up more of them must not fill the memory."""


def read_mqrfh2(
    data: bytes, offset: int = 0, encoding: int = NATIVE, ccsid: int = 1208
) -> tuple[Folder, int, str, int, int]:
    """The folder of the MQRFH2 that begins at `offset`, the offset behind it, and the format,
    encoding and code page that it tells of what follows. What is in its folders is not read yet.

    Raises:
        MessageUnreadable: There is none. Says where.
        CodePageUnknown
    """
    _, version, length, next_encoding, next_ccsid, format_bytes, *_ = _LAYOUT.unpack(data, offset, encoding, ccsid)
    _check(version, length, len(data), offset)
    format_name = _FORMATS.get((format_bytes, ccsid))
    if format_name is None:
        format_name = _LAYOUT.text(format_bytes, ccsid, "Format", offset + 20, 8)
        if len(_FORMATS) < FORMATS_KEPT:
            _FORMATS[format_bytes, ccsid] = format_name
    folder = Folder(MQRFH2, bytes(data[offset : offset + length]), ccsid=ccsid, encoding=encoding, model=offset)
    return folder, offset + length, format_name, next_encoding, next_ccsid


def _check(version: int, length: int, size: int, offset: int) -> None:
    """Version and StrucLength must be possible."""
    if version != 2:
        raise MessageUnreadable(DOMAIN, "Version", offset + 4, f"{version} is not 2")
    if not FIXED_BYTES <= length <= size - offset:
        problem = f"{length} is not between {FIXED_BYTES} and the {size - offset} bytes that there are"
        raise MessageUnreadable(DOMAIN, "StrucLength", offset + 8, problem)


def _read(body: bytes, encoding: int, ccsid: int, base: int) -> list[Element]:
    values = _LAYOUT.read(body, 0, encoding, ccsid)
    end = values["StrucLength"]
    _check(values["Version"], end, len(body), 0)
    children = [Element(name, values[name], NAME_VALUE) for name in FIXED]
    order = "little" if struct_order(encoding, DOMAIN) == "<" else "big"
    position = FIXED_BYTES
    while position < end:
        if end - position < 4:
            raise MessageUnreadable(DOMAIN, "NameValueLength", base + position, f"{end - position} bytes instead of 4")
        length = int.from_bytes(body[position : position + 4], order, signed=True)  # type: ignore[arg-type]
        position += 4
        if not 0 <= length <= end - position:
            problem = f"{length} is not between 0 and the {end - position} bytes that there are"
            raise MessageUnreadable(DOMAIN, "NameValueLength", base + position - 4, problem)
        text = body[position : position + length]
        children += read_folders(text, values["NameValueCCSID"], encoding, base + position)
        position += length
    return children


def _peek(body: bytes, encoding: int, folder: str, tag: str) -> tuple[bool, Any]:
    """The value of a tag where all folders are plain ones: then the whole header would be read without an error."""
    order = struct_order(encoding, DOMAIN)
    if len(body) < FIXED_BYTES:
        return False, None
    identifier, version, end, _, _, format_name, _, ccsid = _FIXED[order].unpack_from(body)
    if identifier != b"RFH " or version != 2 or end != len(body) or ccsid != 1208 or not format_name.isascii():
        return False, None
    wanted, begins, known, value = folder.encode(), b"<%b>" % tag.encode(), False, None
    position = FIXED_BYTES
    while position < end:
        if end - position < 4:
            return False, None
        length = _LENGTH[order].unpack_from(body, position)[0]
        position += 4
        if not 0 <= length <= end - position:
            return False, None
        found = _TAGS.fullmatch(body, position, position + length)
        if found is None:
            return False, None
        if not known and found[1] == wanted:
            known = True
            at = body.find(begins, found.start(2), found.end(2))
            if at >= 0:
                at += len(begins)
                value = body[at : body.index(b"<", at)].decode("ascii")
        position += length
    return True, value


_FIXED = {order: struct.Struct(f"{order}4s4i8s2i") for order in "<>"}
_LENGTH = {order: struct.Struct(f"{order}i") for order in "<>"}


def write_mqrfh2(children: list[Element], encoding: int = NATIVE, ccsid: int = 1208) -> bytes:
    """The bytes of a header with these children.

    Raises:
        MessageUnwritable: A name or value that the header cannot hold.
        CodePageUnknown
    """
    values: dict[str, Any] = {}
    folders: list[Element] = []
    for child in children:
        if child.key in FIXED and child.key not in values and simple(child):
            values[child.key] = child.value
        else:
            folders.append(child)
    version = values.get("Version")
    if version is not None and as_integer(version, DOMAIN, "MQRFH2.Version") != 2:
        raise MessageUnwritable(DOMAIN, "MQRFH2.Version", f"{version} is not 2")
    name_value_ccsid = values.get("NameValueCCSID")
    if name_value_ccsid is None:
        name_value_ccsid = 1208
    name_value_ccsid = as_integer(name_value_ccsid, DOMAIN, "MQRFH2.NameValueCCSID")
    blank = encode(" ", name_value_ccsid, "MQRFH2.NameValueCCSID", domain=DOMAIN, encoding=encoding)
    if len(blank) not in (1, 2):
        raise MessageUnwritable(DOMAIN, "MQRFH2.NameValueCCSID", f"text in {name_value_ccsid} cannot be padded")
    pieces: list[bytes] = []
    for element in folders:
        text = write_folder(element)
        path = f"{DOMAIN}.{element.key}"
        data = encode(text, name_value_ccsid, path, domain=DOMAIN, encoding=encoding)
        data += blank * (-len(data) % 4 // len(blank))
        pieces.append(len(data).to_bytes(4, "little" if encoding & 0xF == 2 else "big"))
        pieces.append(data)
    values["StrucLength"] = FIXED_BYTES + sum(map(len, pieces))
    return _LAYOUT.write(values, encoding, ccsid) + b"".join(pieces)


def fixed_fields(folder: Folder) -> tuple[str, int | None, int | None]:
    """Format, encoding and code page of what follows a header, as its folder says; "" and None where it does not.

    Raises:
        MessageUnwritable: They are of another type.
    """
    domain = folder.domain.name
    if domain == DOMAIN and folder.body and not folder.dirty:
        fixed = _LAYOUT.unpack(folder.body, 0, folder.encoding, folder.ccsid)
        return _LAYOUT.text(fixed[5], folder.ccsid, "Format", 20, 8).rstrip(" "), fixed[3], fixed[4]
    values = {key: folder.get(key) for key in ("Format", "Encoding", "CodedCharSetId")}
    format_name, encoding, ccsid = values["Format"], values["Encoding"], values["CodedCharSetId"]
    return (
        "" if format_name is None else as_text(format_name, domain, f"{domain}.Format").rstrip(" \0"),
        None if encoding is None else as_integer(encoding, domain, f"{domain}.Encoding"),
        None if ccsid is None else as_integer(ccsid, domain, f"{domain}.CodedCharSetId"),
    )


def content_descriptor(folder: Folder) -> dict[str, str]:
    """Msd, Set, Type and Fmt of the folder mcd: how the body is to be read. Empty when there is no mcd.

    Raises:
        MessageUnreadable
    """
    body = folder.body
    if body and folder._children is None and not folder.dirty and folder.ccsid in _ASCII_PAGES:
        order = "little" if folder.encoding & 0xF == 2 else "big"
        if int.from_bytes(body[32:36], order) == 1208:  # type: ignore[arg-type]
            if b"<mcd" not in body and b"<!" not in body:
                return {}
            found = _MCD.findall(body, FIXED_BYTES)
            if not found:
                return _descriptor_in_tree(folder)
            if len(found) == 1 and not _PLAIN_ITEM.sub(b"", found[0]).strip() and b"<!" not in body:
                return {name.decode(): text.decode("utf-8", "replace") for name, text in _PLAIN_ITEM.findall(found[0])}
    return _descriptor_in_tree(folder)


def _descriptor_in_tree(folder: Folder) -> dict[str, str]:
    mcd = folder.first("mcd")
    return {} if mcd is None else {child.key: str(child.value or "") for child in reversed(mcd.children)}


# --- message properties ------------------------------------------------------------------------


def folder_of(origin: Origin) -> Folder:
    """The folder of a message's properties, unread."""
    return Folder(MQRFH2, ELSEWHERE, model=origin)


def _from_properties(origin: Origin) -> list[Element]:
    fixed = (2, origin.body_encoding, origin.body_ccsid, origin.body_format.ljust(8), 0, 1208)
    top = [Element(name, value, NAME_VALUE) for name, value in zip(FIXED, fixed, strict=True)]
    inside: dict[tuple[str, ...], list[Element]] = {(): top}
    branches: list[tuple[Element, list[Element]]] = []
    for name, value in origin.message.properties.items():
        *path, last = _path(name)
        for depth in range(1, len(path) + 1):
            key = tuple(path[:depth])
            if key not in inside:
                inside[key] = []
                element = Element(path[depth - 1])
                inside[key[:-1]].append(element)
                branches.append((element, inside[key]))
        inside[tuple(path)].append(Element(last, value, NAME_VALUE))
    # Filled, not appended to: what came with the message is no change to it.
    for element, children in branches:
        element.fill(children)
    return top


def _path(name: str) -> list[str]:
    steps = name.split(".")
    if len(steps) == 1 or not all(steps) or len(steps) >= DEPTH_MAX:
        return ["usr", name]
    return steps


def properties_of(folder: Folder) -> dict[str, PropertyValue] | None:
    """The message properties that the folder says; None when it says more and must be written as a header.

    A folder that a program made is taken for properties when it has nothing but usr.

    Raises:
        MessageUnwritable: A number of more than 64 bits.
    """
    if isinstance(folder.model, int) or folder.body:
        # It was read from bytes, of which the copy of a changed folder keeps only the offset.
        return None
    allowed = {"usr"}
    if isinstance(folder.model, Origin):
        if not folder.dirty:
            return dict(folder.model.message.properties)
        allowed |= {_path(name)[0] for name in folder.model.message.properties}
    found: dict[str, PropertyValue] = {}
    seen: set[str] = set()
    for child in folder.children:
        if child.key in FIXED and child.key not in seen and simple(child):
            seen.add(child.key)
        elif child.key not in allowed or not _collect(child, "" if child.key == "usr" else child.key, found):
            return None
    return found


def _collect(element: Element, prefix: str, found: dict[str, PropertyValue]) -> bool:
    """Add the values below an element; False when they are not one value for each name."""
    if element.value is not None:
        return False
    for child in element.children:
        name = f"{prefix}.{child.key}" if prefix else child.key
        if child.kind == XMLNSC_ATTRIBUTE:
            # An attribute such as content="properties" is no property, and would be lost.
            return False
        if not child.key or name in found:
            return False
        if not simple(child):
            if not _collect(child, name if prefix else f"usr.{child.key}", found):
                return False
        elif child.value is not None:
            found[name] = _property(child.value, name)
    return True


def _property(value: Any, name: str) -> PropertyValue:
    if isinstance(value, bool | str | bytes | float):
        return value
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise MessageUnwritable(DOMAIN, f"MQRFH2.usr.{name}", "a whole number of more than 64 bits")
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    raise MessageUnwritable(DOMAIN, f"MQRFH2.usr.{name}", f"no property can be a {type(value).__name__}")
