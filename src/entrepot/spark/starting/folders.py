# SPDX-License-Identifier: Apache-2.0
"""Where we keep caches and private files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """A folder in the user's cache that no other user can write to; None where there can be no such folder.

    Java runs what it finds there, so write access would let others run code as us.
    """
    top = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "entrepot"
    folder = top / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _is_ours(top) and _is_ours(folder) else None
    except OSError:
        return None


def _is_ours(folder: Path) -> bool:
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022 and os.access(folder, os.W_OK)


def private_folder(name: str) -> Path:
    """A new folder that only we can see into, gone when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"entrepot-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
