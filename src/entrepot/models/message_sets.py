# SPDX-License-Identifier: Apache-2.0
"""The message sets that this process knows, by name."""

from __future__ import annotations

from pathlib import Path

from entrepot.errors import InvalidArgument, ModelNotFound
from entrepot.models.logical import MessageFormat, MessageSet

_sets: dict[str, MessageSet] = {}


def register_set(message_set: MessageSet) -> MessageSet:
    """From now on messages may name this set; one of the same name is replaced."""
    _sets[message_set.name] = message_set
    return message_set


def find_set(name: str) -> MessageSet:
    """
    Raises:
        ModelNotFound: No set of that name is registered.
    """
    if name not in _sets and name == "SWIFT":
        from entrepot.models.swift import load_swift

        register_set(load_swift())
    try:
        return _sets[name]
    except KeyError:
        raise ModelNotFound("message set", name, tuple(_sets)) from None


def find_format(set_name: str, message: str, format_name: str) -> MessageFormat:
    """What an MRM folder needs, from the three names that a message carries in its headers."""
    return MessageFormat(find_set(set_name), message, format_name)


def load_set(path: str | Path) -> MessageSet:
    """A message set from a file: YAML of ours, a COBOL copybook (.cpy, .cbl, .cob) or an MRM definition (.mxsd).

    Raises:
        ModelInvalid: The file says something wrong; says where.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        from entrepot.models.notation import load_notation

        return load_notation(path)
    if suffix in (".cpy", ".cbl", ".cob"):
        from entrepot.models.copybook import load_copybook

        return load_copybook(path)
    if suffix in (".mxsd", ".xsd"):
        from entrepot.models.mxsd import load_mxsd

        return load_mxsd(path)
    raise InvalidArgument("model file", str(path), "a .yaml, .cpy, .cbl, .cob or .mxsd file")
