# SPDX-License-Identifier: Apache-2.0
"""Field by field from one message to another: many SET statements in a row, done as one.

A program that turns records into records says so field by field. Where the
record that comes in was not looked at yet and what goes out is not begun, its
values are taken without making elements of them.
"""

from __future__ import annotations

from msgspec.structs import replace

from entrepot.esql.runtime.fields import make
from entrepot.models.headers.origin import Origin
from entrepot.models.mrm import MRM, field_values
from entrepot.models.tree import Folder, Root

Copies = tuple[tuple[str, str], ...]
"""For each statement the name of the field that is made, and of the one whose value it gets."""


def copy_record(
    target: Root, path: tuple[str, ...], source: Root, folder: str, copies: Copies, same: tuple[str, ...] | None
) -> bool:
    """SET target.path.a = source.folder.b for each of them; False where the statements themselves have to do it.

    `same` are the names, where each field gets the value of the field of its own name.
    Then nothing has happened, and what is wrong is found by the statement that it concerns.
    """
    record = source.first(folder)
    if type(record) is not Folder or record.dirty or record._children is not None or target.first(path[0]) is not None:
        return False
    read = getattr(record.domain, "flat_values", None)
    values = None if read is None else read(record)
    if values is None:
        return False
    if tuple(values) == same:
        found = values
    else:
        try:
            found = {key: values[name] for key, name in copies}
        except KeyError:
            return False
    parent = make(target, path)
    if type(parent) is Folder and parent.domain is MRM:
        parent.body = field_values(found)
        return True
    children = [parent.new_child(key) for key in found]
    for child, value in zip(children, found.values(), strict=True):
        child.value = value
    parent.fill(children)
    parent.changed(structure=True)
    return True


def put_names(root: Root, names: dict[str, str]) -> bool:
    """SET root.Properties.MessageSet = '...' and its like, without making the other twenty elements beside them.

    False where the folder was looked at or changed: then the statements themselves have to do it.
    """
    if root.unread is not None:
        return False
    folder = root.first("Properties")
    if type(folder) is not Folder or folder.dirty or folder._children is not None:
        return False
    origin = folder.model
    if type(origin) is not Origin:
        return False
    folder.model = replace(origin, **{_ATTRIBUTES[name]: value for name, value in names.items()})
    return True


_ATTRIBUTES = {"MessageSet": "message_set", "MessageType": "message_type", "MessageFormat": "message_format"}
