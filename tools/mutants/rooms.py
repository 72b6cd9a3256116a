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
    "queues/coordinator.py",
    "queues/global_units.py",
    "queues/in_doubt.py",
    "client/blocking/global_unit.py",
)

ROOMS = (
    Room("recovery_log", ("recovery_log/*.py",)),
    Room("queues", ("queues/*.py",), without=_GLOBAL_UNITS),
    Room("global units", (*_GLOBAL_UNITS, "databases/*.py")),
    Room("channels", ("channels/*.py", "client/*.py", "client/blocking/*.py"), without=_GLOBAL_UNITS),
    Room("security", ("security/*.py",)),
    Room("live flows", ("spark/live/*.py", "flows/kernel.py", "flows/journey.py", "flows/nodes/input_node.py")),
)


def module_name(path: Path) -> str:
    """What a file of ours is imported as."""
    return "entrepot." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
