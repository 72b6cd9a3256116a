# SPDX-License-Identifier: Apache-2.0
"""Inputs that are kept: a file for each target, a line for each input, written as Python writes bytes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
_REMARK = "# "


def read_corpus(target_name: str) -> list[bytes]:
    """The inputs of a target; none if nothing was kept for it."""
    path = FOLDER / f"{target_name}.txt"
    if not path.exists():
        return []
    return [ast.literal_eval(line) for line in path.read_text().splitlines() if line and not line.startswith(_REMARK)]


def write_corpus(target_name: str, inputs: Iterable[bytes]) -> None:
    """Replace the inputs of a target; remarks stay."""
    path = FOLDER / f"{target_name}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    remarks = [line for line in lines if line.startswith(_REMARK)]
    kept = sorted(set(inputs), key=lambda data: (len(data), data))
    path.write_text("\n".join([*remarks, *map(repr, kept)]) + "\n")
