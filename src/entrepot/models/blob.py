# SPDX-License-Identifier: Apache-2.0
"""The BLOB domain: a body that is not parsed, as one value.

    BLOB ─ BLOB X'48454C4C4F'

A program may add UnknownParserName beside it, as IBM's parser does; it is not written.
"""

from __future__ import annotations

from typing import Any

from entrepot.errors.flows import MessageUnwritable
from entrepot.models.element_types import NAME_VALUE
from entrepot.models.tree import Element, Folder


class BlobDomain:
    name = "BLOB"

    def parse(self, folder: Folder) -> None:
        folder.fill([Element("BLOB", folder.body, NAME_VALUE)])

    def render(self, folder: Folder) -> bytes:
        """The bytes of the child BLOB; none when there is no such child.

        Raises:
            MessageUnwritable: Its value is something else than BLOB, or there are two.
        """
        blobs = folder.all("BLOB")
        if not blobs:
            return b""
        value = blobs[0].value
        if len(blobs) > 1:
            raise MessageUnwritable("BLOB", blobs[1].path(), "a body is one BLOB, and this is the second")
        if value is None:
            return b""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise MessageUnwritable("BLOB", blobs[0].path(), f"{type(value).__name__} is no BLOB; cast it")
        return bytes(value)

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        return (True, folder.body) if keys == ("BLOB",) else (False, None)


BLOB = BlobDomain()
