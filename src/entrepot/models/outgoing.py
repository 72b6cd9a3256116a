# SPDX-License-Identifier: Apache-2.0
"""A tree on its way out: header after header, each telling of the next, then the body.

`assembling.render_message` is the door; its rules are written there. The tree
is read, not changed: where a header must say something else than its folder
does, a copy says it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from entrepot.errors import MessageUnwritable
from entrepot.message import Message
from entrepot.models.code_pages import codec_of
from entrepot.models.headers.chain import FORMATS, KNOWN
from entrepot.models.headers.descriptor import from_mqmd, from_properties, origin_of
from entrepot.models.headers.mqrfh2 import INHERIT, content_descriptor, fixed_fields, properties_of
from entrepot.models.message_sets import find_format
from entrepot.models.tree import Element, Folder, Root

DOMAINS = {
    "xml": "XML",
    "xmlns": "XMLNS",
    "xmlnsc": "XMLNSC",
    "soap": "SOAP",
    "json": "JSON",
    "mrm": "MRM",
    "mime": "MIME",
    "blob": "BLOB",
    "none": "BLOB",
}
"""What mcd.Msd says, in small letters, and the domain that it means. JMS's own kinds leave the choice to the caller."""

BODY_DOMAINS = tuple(dict.fromkeys(DOMAINS.values()))

BYTES_ONLY = frozenset({"BLOB", "MIME"})
"""Domains whose bytes are the same in every code page."""

NOT_WRITTEN = frozenset(
    {"HTTPInputHeader", "HTTPReplyHeader", "HTTPRequestHeader", "HTTPResponseHeader", "JMSTransport"}
)
"""Headers of other transports, which a queue has no place for."""


class _ChainLink:
    """What the descriptor or a header tells about what follows it."""

    __slots__ = ("ccsid", "encoding", "folder", "format")

    def __init__(self, format_name: str, encoding: int, ccsid: int, folder: Folder | None = None) -> None:
        self.format = format_name
        self.encoding = encoding
        self.ccsid = ccsid
        self.folder = folder


class Rendering:
    """One message on its way out."""

    def __init__(self, root: Root, like: Message | None) -> None:
        self.properties: Folder | None = None
        self.mqmd: Folder | None = None
        self.headers: list[Folder] = []
        self.bodies: list[Folder] = []
        for child in root.children:
            self._sort(child)
        self.origin = origin_of(self.mqmd) or origin_of(self.properties)
        descriptor_origin = origin_of(self.mqmd)
        base = like or (descriptor_origin.message if descriptor_origin else Message(b""))
        self.attributes: dict[str, Any] = {}
        self.decided: set[str] = set()
        if self.mqmd is not None:
            self.attributes, self.decided = from_mqmd(self.mqmd)
            if like is not None and descriptor_origin is not None and not self.mqmd.dirty:
                base = _descriptor_like(descriptor_origin.message, like)
        self.base = base
        self._take_properties(like)

    def _sort(self, child: Element) -> None:
        if not isinstance(child, Folder):
            if child.key not in NOT_WRITTEN:
                raise MessageUnwritable(
                    "Root", f"Root.{child.key}", f"{child.key} is no domain, and no place for a body"
                )
        elif child.domain.name == "Properties":
            self.properties = self.properties or child
        elif child.domain.name == "MQMD":
            self.mqmd = self.mqmd or child
        elif child.domain.name in FORMATS:
            if self.bodies:
                raise MessageUnwritable("Root", f"Root.{child.key}", "a header cannot follow the body")
            self.headers.append(child)
        else:
            self.bodies.append(child)

    def _take_properties(self, like: Message | None) -> None:
        """Find the MQRFH2 that stands for the message's properties."""
        for folder in self.headers:
            if folder.domain.name == "MQRFH2":
                found = properties_of(folder)
                if found is not None:
                    self.headers.remove(folder)
                    self.attributes["properties"] = found
                    return
        came = self.origin
        if self.mqmd is None:
            self.attributes["properties"] = like.properties if like is not None else {}
        elif came is None or came.properties_shown:
            # The tree showed the properties, and a program has taken them out.
            self.attributes["properties"] = {}
        else:
            self.attributes["properties"] = came.message.properties

    def message(self) -> Message:
        attributes = self.attributes
        fields: dict[str, Any] = {}
        if self.properties is not None:
            fields = from_properties(self.properties, self.mqmd is None, self.decided)
        following: dict[str, Any] = {key: fields.pop(key) for key in ("encoding", "ccsid") if key in fields}
        attributes.update(fields)
        base = self.base
        first = _ChainLink(
            attributes.get("format", base.format).rstrip(" \0"),
            attributes.get("encoding", base.encoding),
            attributes.get("ccsid", base.ccsid) or 1208,
        )
        links = self._chain(first, following)
        pieces: list[bytes] = []
        for before, link in pairwise(links):
            assert link.folder is not None
            pieces.append(self._header(link.folder, before, link))
        last = links[-1]
        pieces += [self._body(folder, last) for folder in self.bodies]
        attributes["body"] = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        attributes["format"] = first.format
        attributes["encoding"] = first.encoding
        attributes["ccsid"] = first.ccsid
        return replace(base, **attributes)

    # --- headers -------------------------------------------------------------------------------

    def _chain(self, first: _ChainLink, following: dict[str, Any]) -> list[_ChainLink]:
        """Descriptor and headers, each telling of the next."""
        links = [first]
        for folder in self.headers:
            before = links[-1]
            name = FORMATS[folder.domain.name]
            format_name, encoding, ccsid = fixed_fields(folder)
            link = _ChainLink(format_name, encoding or before.encoding, ccsid or before.ccsid, folder)
            if link.ccsid == INHERIT:
                link.ccsid = before.ccsid
            if before.format != name:
                if not link.format and before.format not in KNOWN:
                    # A header that a program put in between: what was told of the body is now its to tell.
                    link.format = before.format
                before.format = name
            if codec_of(before.ccsid).startswith(("utf-16", "utf-32")):
                before.ccsid = 1208
            links.append(link)
        last = links[-1]
        origin = self.origin
        if last.format in KNOWN:
            # The header that it announces was taken out.
            known = origin is not None and origin.body_format not in KNOWN
            last.format = origin.body_format if known and origin is not None else ""
            if last is first and origin is not None and not self.decided & {"Encoding", "CodedCharSetId"}:
                last.encoding, last.ccsid = origin.body_encoding, origin.body_ccsid
        if last is first or not self._changed(last):
            last.encoding = following.get("encoding", last.encoding)
            last.ccsid = following.get("ccsid", last.ccsid) or 1208
        return links

    def _changed(self, link: _ChainLink) -> bool:
        """A program has said another code page or encoding in the header itself."""
        origin, folder = self.origin, link.folder
        if origin is None or folder is None or not folder.dirty:
            return folder is not None and folder.dirty
        return link.ccsid != origin.body_ccsid or link.encoding != origin.body_encoding

    def _header(self, folder: Folder, before: _ChainLink, link: _ChainLink) -> bytes:
        content = self._content(folder) if folder.domain.name == "MQRFH2" else ""
        same = (
            not content
            and folder.body
            and not folder.dirty
            and (folder.encoding, folder.ccsid) == (before.encoding, before.ccsid)
        )
        format_name, encoding, ccsid = fixed_fields(folder)
        own_ccsid = ccsid if ccsid not in (INHERIT, 0, None) else before.ccsid
        if same and (format_name, encoding or before.encoding, own_ccsid) == (link.format, link.encoding, link.ccsid):
            return folder.body or b""
        twin = Folder(folder.domain, None, ccsid=before.ccsid, encoding=before.encoding)
        twin.fill([child.copy() for child in folder.children])
        for name, value in (("Format", link.format), ("Encoding", link.encoding), ("CodedCharSetId", link.ccsid)):
            child = twin.first(name)
            if child is None:
                twin.insert(0, Element(name, value))
            elif name != "CodedCharSetId" or child.value != INHERIT or link.ccsid != before.ccsid:
                child.set_value(value)
        if content:
            self._set_content(twin, content)
        return twin.render()

    def _content(self, folder: Folder) -> str:
        """The domain that mcd must say, when it says another one than the body is in."""
        if len(self.bodies) != 1 or folder is not self.headers[-1]:
            return ""
        domain_named = DOMAINS.get(content_descriptor(folder).get("Msd", "").lower())
        domain = self.bodies[0].domain.name
        return domain if domain_named is not None and domain_named != domain else ""

    def _set_content(self, header: Folder, domain: str) -> None:
        mcd = header.first("mcd")
        assert mcd is not None
        names = self._model_names() if domain == "MRM" else ("", "", "")
        descriptor = {"Msd": "none" if domain == "BLOB" else domain.lower()}
        descriptor.update(zip(("Set", "Type", "Fmt"), names, strict=True))
        for key, value in descriptor.items():
            child = mcd.first(key)
            if child is not None and value:
                child.set_value(value)
            elif child is not None:
                mcd.remove(child)
            elif value:
                mcd.add(key, value)

    # --- body ----------------------------------------------------------------------------------

    def _body(self, folder: Folder, last: _ChainLink) -> bytes:
        name = folder.domain.name
        if name == "MRM" and folder.model is None:
            set_name, message, format_name = self._model_names()
            if set_name:
                folder.model = find_format(set_name, message, format_name)
        if name in BYTES_ONLY:
            return folder.render()
        encoding_matters = name == "MRM" or last.ccsid == 1200
        if folder.ccsid == last.ccsid and (folder.encoding == last.encoding or not encoding_matters):
            return folder.render()
        # Elements still to be read from the old bytes need the old code page, hence a copy.
        twin = Folder(folder.domain, None, key=folder.key, ccsid=last.ccsid, encoding=last.encoding, model=folder.model)
        twin.value = folder.value
        twin.fill([child.copy() for child in folder.children])
        return twin.render()

    def _model_names(self) -> tuple[str, str, str]:
        """Message set, message and format of an MRM body, from Properties, else from mcd."""
        names = ("", "", "")
        if self.properties is not None:
            set_name, message, format_name = (
                self.properties.get(key) for key in ("MessageSet", "MessageType", "MessageFormat")
            )
            names = (str(set_name or ""), str(message or ""), str(format_name or ""))
        for header in self.headers if not names[0] else ():
            if header.domain.name == "MQRFH2":
                descriptor = content_descriptor(header)
                names = (descriptor.get("Set", ""), descriptor.get("Type", ""), descriptor.get("Fmt", ""))
        return names


def _descriptor_like(came: Message, like: Message) -> Message:
    """The descriptor of one message, with what no folder shows from another."""
    return replace(
        came,
        delay_s=like.delay_s,
        target_queue=like.target_queue,
        target_manager=like.target_manager,
        topic=like.topic,
        retained=like.retained,
    )
