# SPDX-License-Identifier: Apache-2.0
"""Which parser and renderer stands behind the name of a folder below Root."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from entrepot.models.tree import Folder


class Domain(Protocol):
    """A format family: its parser and its renderer are each other's inverse."""

    @property
    def name(self) -> str: ...

    def parse(self, folder: Folder) -> None:
        """Give the folder its children, from `folder.body`.

        Raises:
            MessageUnreadable: The bytes are none of this format. Says path and offset.
        """

    def render(self, folder: Folder) -> bytes:
        """The bytes of the folder's tree.

        Raises:
            MessageUnwritable: Something in the tree cannot be said in this format. Says the path.
        """

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        """(True, value) of the first elements along `keys` if the beginning of the body tells; else (False, None)."""


class WholeOnly:
    """For domains that cannot tell anything from the beginning of a body."""

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        del folder, keys
        return False, None


_PLACES = {
    "XML": "entrepot.models.xml:XML",
    "XMLNS": "entrepot.models.xml:XMLNS",
    "XMLNSC": "entrepot.models.xml:XMLNSC",
    "SOAP": "entrepot.models.soap:SOAP",
    "JSON": "entrepot.models.json:JSON",
    "BLOB": "entrepot.models.blob:BLOB",
    "MIME": "entrepot.models.mime:MIME",
    "MRM": "entrepot.models.mrm:MRM",
    "MQMD": "entrepot.models.headers.mqmd:MQMD",
    "MQRFH2": "entrepot.models.headers.mqrfh2:MQRFH2",
    "MQDLH": "entrepot.models.headers.mqdlh:MQDLH",
    "Properties": "entrepot.models.headers.properties:PROPERTIES",
}
"""Where each domain's object is; imported when a message first needs it."""

_loaded: dict[str, Domain | None] = {}


def find_domain(name: str) -> Domain | None:
    """The domain of that name; None when there is none."""
    try:
        return _loaded[name]
    except KeyError:
        place = _PLACES.get(name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        domain: Domain = getattr(import_module(module), attribute)
        _loaded[name] = domain
        return domain
