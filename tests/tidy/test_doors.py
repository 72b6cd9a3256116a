# SPDX-License-Identifier: Apache-2.0
"""Rooms are entered by their doors: a module that another room imports is named in its room's `DOORS`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import grimp
import pytest

import entrepot

ROOMS = sorted(path.parent.name for path in Path(entrepot.__file__).parent.glob("*/__init__.py"))


@pytest.fixture(scope="module")
def entered() -> dict[str, dict[str, str]]:
    """Of each room: the modules that others import, and one who does."""
    graph = grimp.build_graph("entrepot", cache_dir=None)
    found: dict[str, dict[str, str]] = {room: {} for room in ROOMS}
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            _, room, *module = [*imported.split("."), ""]
            if module and module[0] and room in found and importer.split(".")[1:2] != [room]:
                found[room]["entrepot." + room + "." + ".".join(filter(None, module))] = importer
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_entered_by_its_doors_alone_and_every_door_is_used(
    room: str, entered: dict[str, dict[str, str]]
) -> None:
    doors = {f"entrepot.{room}.{door}" for door in getattr(import_module(f"entrepot.{room}"), "DOORS", ())}
    assert {module: by for module, by in entered[room].items() if module not in doors} == {}
    assert doors - entered[room].keys() == set()
