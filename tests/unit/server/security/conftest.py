# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .power_cuts import PowerCuts

CANARY = "canary-Kx7-bird"
"""A secret that must be nowhere but in the file made for it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "QM1"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def hashings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The parameters of each scrypt, in place of a clock: the same work takes the same time."""
    done: list[tuple[int, int, int]] = []
    scrypt: Callable[..., bytes] = hashlib.scrypt

    def counted(password: bytes, **named: Any) -> bytes:
        done.append((named["n"], named["r"], named["p"]))
        return scrypt(password, **named)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    return done


@pytest.fixture
def cuts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PowerCuts]:
    """What power cuts would leave of the folder; in effect until the end of the test."""
    with monkeypatch.context() as patched:
        watching = PowerCuts(folder, patched)
        yield watching
    watching.close()
