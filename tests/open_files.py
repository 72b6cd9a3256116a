# SPDX-License-Identifier: Apache-2.0
"""What this process has open, for tests that show that nothing stays behind."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def open_files(folder: Path) -> list[str]:
    """The names of the files below a folder, and of the folder itself, as often as this process has them open."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own, or another thread has closed it
            targets.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
    return sorted(target.name for target in targets if target.is_relative_to(folder))
