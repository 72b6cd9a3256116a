# SPDX-License-Identifier: Apache-2.0
"""Which modules are mutated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "entrepot"


@dataclass(frozen=True, slots=True)
class Room:
    """Modules that keep a promise together."""

    name: str
    modules: tuple[str, ...]
    """Globs below src/entrepot."""
    without: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        found = {path for pattern in self.modules for path in SOURCE.glob(pattern)}
        left_out = {path for pattern in self.without for path in SOURCE.glob(pattern)}
        return sorted(path for path in found - left_out if path.name != "__init__.py")


_GLOBAL_UNITS = (
    "engine/coordinator.py",
    "engine/global_units.py",
    "engine/in_doubt.py",
    "client/blocking/global_unit.py",
)

ROOMS = (
    Room("recovery_log", ("engine/recovery_log/*.py",)),
    Room("engine", ("engine/*.py",), without=(*_GLOBAL_UNITS, "engine/memory_disk.py")),
    Room("global units", (*_GLOBAL_UNITS, "engine/databases/*.py")),
    Room(
        "channels",
        ("channels/*.py", "server/*.py", "daemon/acceptor.py", "client/*.py", "client/blocking/*.py"),
        without=_GLOBAL_UNITS,
    ),
    Room("security", ("server/security/*.py", "private_file.py")),
    Room(
        "live flows",
        (
            "flows/live/*.py",
            "spark/live/*.py",
            "flows/kernel.py",
            "flows/journey.py",
            "flows/nodes/input_node.py",
        ),
    ),
)


def module_name(path: Path) -> str:
    """What a file of ours is imported as."""
    return "entrepot." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
