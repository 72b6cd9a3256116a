# SPDX-License-Identifier: Apache-2.0
"""The parts that a profile has named, compiled: frames, flat verbs and a client's line.

Each has a twin in plain Python, which serves where no compiler was when the
package was installed, or where ENTREPOT_PURE is set. Both forms pass the
same tests (docs/decisions/0036-compiled-forms.md).
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def compiled(name: str) -> Any:
    """A compiled module of this package, or None where its twin in Python has to serve."""
    if os.environ.get("ENTREPOT_PURE"):
        return None
    try:
        return import_module(f"entrepot.compiled.{name}")
    except ImportError:
        return None


def form() -> str:
    """Which form runs here: "compiled" or "pure Python"."""
    return "pure Python" if compiled("express") is None or compiled("transport") is None else "compiled"
