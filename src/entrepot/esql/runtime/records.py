# SPDX-License-Identifier: Apache-2.0
"""Field by field from one message to another: many SET statements in a row, done as one.

A program that turns records into records says so field by field. Where the
record that comes in was not looked at yet and what goes out is not begun, its
values are taken without making elements of them.
"""

from __future__ import annotations

from entrepot.esql.runtime.fields import make
from entrepot.models.tree import Element, Folder, Root

Copies = tuple[tuple[str, str], ...]
"""For each statement the name of the field that is made, and of the one whose value it gets."""


def copy_record(target: Root, path: tuple[str, ...], source: Root, folder: str, copies: Copies) -> bool:
    """SET target.path.a = source.folder.b for each of them; False where the statements themselves have to do it.

    Then nothing has happened, and what is wrong is found by the statement that it concerns.
    """
    record = source.first(folder)
    if type(record) is not Folder or record.dirty or record._children is not None or target.first(path[0]) is not None:
        return False
    read = getattr(record.domain, "flat_values", None)
    values = None if read is None else read(record)
    if values is None:
        return False
    try:
        found = [values[name] for _, name in copies]
    except KeyError:
        return False
    parent = make(target, path)
    own = type(parent) is not Folder and type(parent) is not Element
    children = []
    for (key, _), value in zip(copies, found, strict=True):
        child = parent.new_child(key) if own else Element(key)
        child.value = value
        child._has_changed = True
        children.append(child)
    parent.fill(children)
    parent.changed(structure=True)
    return True
