# SPDX-License-Identifier: Apache-2.0
"""The message behind the folders MQMD and Properties, which are seldom looked into.

A message in our queue manager has a descriptor, not the bytes of one. Its
folders hold an `Origin` as their model and `ELSEWHERE` as their body, so that
a tree takes them for unread: thirty elements are made only when a program
asks, and a copy of an unchanged folder shares the message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from entrepot.message import Message
from entrepot.models.domains import find_domain
from entrepot.models.tree import Folder


class _Elsewhere(bytes):
    """No bytes: what the folder says is in its model. `Folder.render` asks the domain for bytes then."""

    __slots__ = ()


ELSEWHERE: bytes = _Elsewhere()


class Origin(msgspec.Struct, frozen=True, gc=False):
    """A message as it came, and what the reader of its queue knows beside it."""

    message: Message
    body_format: str
    """Format of what follows the last header; as `body_encoding` and `body_ccsid`."""
    body_encoding: int
    body_ccsid: int
    message_set: str = ""
    message_type: str = ""
    message_format: str = ""
    source_queue: str = ""
    transactional: bool = False
    domain: str = ""
    """Of the body's folder."""
    headers: tuple[bytes, ...] = ()
    """The bodies of the folders between MQMD and the body's folder, as they came."""
    offset: int = 0
    """Where the body of the message goes on behind its headers."""
    properties_shown: bool = True
    """The tree has the message's properties; not so when the body has an MQRFH2 of its own."""


class Unopened(msgspec.Struct, frozen=True, gc=False):
    """A message as the folders of a root that are not made yet (tree.Unread)."""

    origin: Origin
    parser: Any
    """Domain of the body."""
    model: Any
    headers: tuple[Folder, ...] = ()
    """The folders between MQMD and the body's folder; each root has its own copies."""

    @property
    def keys(self) -> tuple[str, ...]:
        if self.headers:
            return "Properties", "MQMD", *[header.key for header in self.headers], self.origin.domain
        return "Properties", "MQMD", self.origin.domain

    def folder(self, key: str) -> Folder:
        origin = self.origin
        if key == "MQMD" or key == "Properties":
            domain = find_domain(key)
            assert domain is not None
            return Folder(domain, ELSEWHERE, model=origin)
        for header in self.headers:
            if header.key == key:
                return header.copy()
        body = origin.message.body
        if origin.offset:
            body = body[origin.offset :]
        return Folder(self.parser, body, ccsid=origin.body_ccsid, encoding=origin.body_encoding, model=self.model)
