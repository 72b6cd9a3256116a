# SPDX-License-Identifier: Apache-2.0
"""Units are tested in memory: thousands of them have a queue manager, and each of those would wait for the disk.

Disks have their turn in tests/recovery and wherever a server runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import folder_in_memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own, in memory."""
    with folder_in_memory() as folder:
        yield Path(folder)
