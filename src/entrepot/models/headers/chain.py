# SPDX-License-Identifier: Apache-2.0
"""From one header to the next: each names format, encoding and code page of what follows it.

    descriptor: MQDEAD ── MQDLH: MQHRF2 ── MQRFH2: MQSTR ── the body

Headers that are not known end the chain: they and all that follows are the
body, to be taken as a BLOB. A chain cannot loop, since every header takes
bytes; how many there may be is bounded nevertheless.
"""

from __future__ import annotations

from typing import NamedTuple

from entrepot.errors import MessageTooComplex, MessageUnreadable
from entrepot.models.headers.mqdlh import read_mqdlh
from entrepot.models.headers.mqrfh2 import INHERIT, read_mqrfh2
from entrepot.models.tree import Folder

HEADERS_MAX = 100

KNOWN = {"MQHRF2": "MQRFH2", "MQDEAD": "MQDLH"}
"""Format, and the folder of the header that it announces."""

FORMATS = {folder: name for name, folder in KNOWN.items()}

UNSUPPORTED = {
    "MQCICS": "MQCIH",
    "MQIMS": "MQIIH",
    "MQHDIST": "MQDH",
    "MQHEPCF": "MQEPH",
    "MQHMDE": "MQMDE",
    "MQHREF": "MQRMH",
    "MQHRF": "MQRFH",
    "MQHSAP": "MQSAPH",
    "MQHWIH": "MQWIH",
    "MQXMIT": "MQXQH",
}
"""Formats of headers that MQ has and that are not read here, with the header's name."""


class Chain(NamedTuple):
    """The headers of a body, and what follows them."""

    folders: list[Folder]
    offset: int
    """Where the rest begins."""
    format: str
    """Of the rest, without padding; as `encoding` and `ccsid`."""
    encoding: int
    ccsid: int

    @property
    def unsupported(self) -> str:
        """Name of the header that ended the chain because it cannot be read; empty when none did."""
        return UNSUPPORTED.get(self.format, "")


def read_headers(body: bytes, format_name: str, encoding: int, ccsid: int) -> Chain:
    """The headers at the beginning of a body.

    Raises:
        MessageUnreadable: A header is announced that is not there. Says where.
        MessageTooComplex: More headers than the limit.
        CodePageUnknown
    """
    folders: list[Folder] = []
    offset = 0
    following = format_name.rstrip(" \0")
    while following in KNOWN:
        if len(folders) == HEADERS_MAX:
            raise MessageTooComplex(following, KNOWN[following], offset, f"more than {HEADERS_MAX} headers")
        if following == "MQDEAD":
            folder, offset = read_mqdlh(body, offset, encoding, ccsid)
            following, next_encoding, next_ccsid = (folder.get(key) for key in ("Format", "Encoding", "CodedCharSetId"))
        else:
            folder, offset, following, next_encoding, next_ccsid = read_mqrfh2(body, offset, encoding, ccsid)
        folders.append(folder)
        following = following.rstrip(" ")
        encoding = next_encoding or encoding
        ccsid = resolve_ccsid(next_ccsid, ccsid, offset, folder.key)
    return Chain(folders, offset, following, encoding, ccsid)


def resolve_ccsid(ccsid: int, own: int, offset: int = 0, header: str = "MQRFH2") -> int:
    """The code page of what follows a header that tells `told` and is written in `own`."""
    if ccsid in (INHERIT, 0):
        return own
    if ccsid < 0:
        raise MessageUnreadable(header, "CodedCharSetId", offset, f"{ccsid} is no code page")
    return ccsid
