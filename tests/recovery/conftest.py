# SPDX-License-Identifier: Apache-2.0
"""Where queue managers are killed: in memory, as a killed process leaves its files there as it would on a disk.

Kills under load stay on the disk, whose forces take their time and let others gather.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import folder_in_memory

ON_DISK = ("test_kill_under_load.py",)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of the test's own."""
    if request.path.name in ON_DISK:
        yield tmp_path_factory.mktemp("disk")
        return
    with folder_in_memory() as folder:
        yield Path(folder)
