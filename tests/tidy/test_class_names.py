# SPDX-License-Identifier: Apache-2.0
"""One word, one meaning: a class name exists once in the package."""

from __future__ import annotations

import ast
from collections import defaultdict

from .pages import SOURCE

BLOCKING = "client/blocking/"
"""Generated from client/aio/, class by class, so a name there and in its source counts once."""

SHARED = {
    # JMS's own words, for the same things in its room.
    "Consumer",
    "Session",
}
"""Names that more than one class has. None may be added, and those that are unique again leave the list."""


def test_a_class_name_exists_once_in_the_package() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and module.replace(BLOCKING, "client/aio/") not in modules[node.name]:
                modules[node.name].append(module)
    shared = {name: places for name, places in modules.items() if len(places) > 1}
    assert {name: places for name, places in shared.items() if name not in SHARED} == {}
    assert sorted(SHARED - shared.keys()) == [], "unique now: take them off the list"
