# SPDX-License-Identifier: Apache-2.0
"""What tests of the workbench share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not in pytest's own folders, which are private to who runs the tests."""
    made = Path(tempfile.mkdtemp(prefix="entrepot-peers-"))
    made.chmod(0o755)
    try:
        yield made / "system"
    finally:
        shutil.rmtree(made, ignore_errors=True)
