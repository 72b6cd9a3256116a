# SPDX-License-Identifier: Apache-2.0
"""Real folders, watched: what a power cut would leave of them, and what of them is open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Medium:
    """What is on the medium: names and contents as they were when they were last forced.

    Watches all forces, renames and removals from now on; what is there already is safe.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._names: dict[int, dict[str, int]] = {}
        """What each folder has on the medium; files and folders by their numbers."""
        self._contents: dict[int, bytes] = {}
        self.at_risk_when: dict[str, set[str]] = {}
        """What a power cut could have taken just before a file got its name by a rename, or was removed."""
        for path in (root, *root.rglob("*")):
            self._take(path)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._forcing(getattr(os, name)))
        monkeypatch.setattr(os, "rename", self._noting(os.rename, 1))
        monkeypatch.setattr(os, "unlink", self._noting(os.unlink, 0))

    def at_risk(self, *below: str) -> set[str]:
        """Files and folders that a power cut now could take, bring back or leave with other contents."""
        found: set[str] = set()
        self._compare(self._root, found)
        return {path for path in found if not below or path.startswith(tuple(f"{each}/" for each in below))}

    def _compare(self, folder: Path, found: set[str]) -> None:
        durable = self._names.get(folder.stat().st_ino, {})
        present = {path.name: path for path in folder.iterdir()}
        found.update(str((folder / name).relative_to(self._root)) for name in durable.keys() - present.keys())
        for name, path in present.items():
            number = path.stat().st_ino
            if path.is_dir():
                self._compare(path, found)
            elif self._contents.get(number) != path.read_bytes():
                found.add(str(path.relative_to(self._root)))
            if durable.get(name) != number:
                found.add(str(path.relative_to(self._root)))

    def _take(self, path: Path) -> None:
        number = path.stat().st_ino
        if path.is_dir():
            self._names[number] = {child.name: child.stat().st_ino for child in path.iterdir()}
        elif path.is_file():
            self._contents[number] = path.read_bytes()

    def _forcing(self, force: Callable[[int], None]) -> Callable[[int], None]:
        def forced(descriptor: int) -> None:
            force(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_relative_to(self._root) and path.exists():
                self._take(path)

        return forced

    def _noting(self, change: Callable[..., None], which: int) -> Callable[..., None]:
        def noted(*arguments: Any, **options: Any) -> None:
            path = Path(arguments[which])
            if path.is_relative_to(self._root):
                self.at_risk_when[str(path.relative_to(self._root))] = self.at_risk()
            change(*arguments, **options)

        return noted
