# SPDX-License-Identifier: Apache-2.0
"""Flows in our notation and in IBM's, maps, and cases of tests."""

from __future__ import annotations

import atexit
from pathlib import Path

from conftest import folder_in_memory
from entrepot.flows.loading import inspect_flow
from entrepot.flows.maps.gdm import read_map

from .target import Target

REPOSITORY = Path(__file__).parents[2]
_folder = folder_in_memory()
atexit.register(_folder.cleanup)
# Flows name files beside them: none is there, and none outside is asked for.
_PLACE = Path(_folder.name) / "project"


def _inspect(data: bytes, name: str) -> None:
    _PLACE.mkdir(exist_ok=True)
    path = _PLACE / name
    path.write_bytes(data)
    inspection = inspect_flow(path)
    assert inspection.flow is not None or inspection.mistakes


def read_yaml_flow(data: bytes) -> None:
    _inspect(data, "flow.yaml")


def read_msgflow(data: bytes) -> None:
    _inspect(data, "Flow.msgflow")


def read_map_file(data: bytes) -> None:
    read_map(data, "fuzz.map")


def _files(folder: str, pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((REPOSITORY / folder).glob(pattern)))


YAML = (
    b"flow: orders\nnodes:\n  Orders:\n    type: MQInput\n    queue: ORDERS\n    to: {out: Done, catch: Errors}\n"
    b"  Done: {type: MQOutput, queue: DONE}\n  Errors: {type: MQOutput, queue: ERRORS}\n",
    *_files("examples/flows", "*.yaml"),
)

TARGETS = (
    Target("flow-yaml", read_yaml_flow, YAML, 150),
    Target("flow-msgflow", read_msgflow, _files("tests/golden/flows", "**/*.msgflow"), 150, 8192),
    Target("flow-map", read_map_file, _files("tests/golden/flows", "**/*.map"), 300, 8192),
)
