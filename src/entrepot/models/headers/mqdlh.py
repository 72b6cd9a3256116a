# SPDX-License-Identifier: Apache-2.0
"""The MQDLH folder: why a message lies on a dead-letter queue, and where it was going.

Its 172 bytes stand before the message that could not be delivered; Encoding,
CodedCharSetId and Format tell about that message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrepot.errors import MessageUnreadable
from entrepot.models.domains import WholeOnly
from entrepot.models.element_types import NAME_VALUE
from entrepot.models.encodings import NATIVE
from entrepot.models.headers.layout import DATE, INTEGER, TIME, Field, Layout, text_field
from entrepot.models.tree import Element, Folder

LAYOUT = Layout(
    "MQDLH",
    "DLH ",
    (
        Field("Version", INTEGER, default=1),
        Field("Reason", INTEGER),
        text_field("DestQName", 48),
        text_field("DestQMgrName", 48),
        Field("Encoding", INTEGER),
        Field("CodedCharSetId", INTEGER),
        text_field("Format", 8),
        Field("PutApplType", INTEGER),
        text_field("PutApplName", 28),
        Field("PutDate", DATE, 8, ""),
        Field("PutTime", TIME, 8, ""),
    ),
)


class _Mqdlh(WholeOnly):
    name = "MQDLH"

    def parse(self, folder: Folder) -> None:
        values = LAYOUT.read(folder.body or b"", 0, folder.encoding, folder.ccsid)
        folder.fill(Element(name, value, NAME_VALUE) for name, value in values.items())

    def render(self, folder: Folder) -> bytes:
        values: dict[str, Any] = {}
        for child in folder.children:
            values.setdefault(child.key, child.value)
        return write_mqdlh(values, folder.encoding, folder.ccsid)


MQDLH = _Mqdlh()


def read_mqdlh(data: bytes, offset: int = 0, encoding: int = NATIVE, ccsid: int = 1208) -> tuple[Folder, int]:
    """The folder of the MQDLH that begins at `offset`, and the offset behind it.

    Raises:
        MessageUnreadable: There is none. Says where.
        CodePageUnknown
    """
    version = LAYOUT.read(data, offset, encoding, ccsid)["Version"]
    if version != 1:
        raise MessageUnreadable("MQDLH", "Version", offset + 4, f"{version} is not 1")
    end = offset + LAYOUT.size
    return Folder(MQDLH, bytes(data[offset:end]), ccsid=ccsid, encoding=encoding), end


def write_mqdlh(values: Mapping[str, Any], encoding: int = NATIVE, ccsid: int = 1208) -> bytes:
    """The bytes of an MQDLH; what `values` do not say has MQ's default.

    Raises:
        MessageUnwritable: A value that does not fit.
        CodePageUnknown
    """
    return LAYOUT.write(values, encoding, ccsid)
