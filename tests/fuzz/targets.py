# SPDX-License-Identifier: Apache-2.0
"""All targets by their names; a family is a module, so that a process imports only the code that it fuzzes."""

from __future__ import annotations

from importlib import import_module

from .target import Target

FAMILIES = ("native_frames", "amqp_frames", "log_files", "languages", "model_readers", "flow_files")


def targets_of(family: str) -> dict[str, Target]:
    return {target.name: target for target in import_module(f".{family}", __package__).TARGETS}


def all_targets() -> dict[str, tuple[str, Target]]:
    """The family of each target, and the target."""
    return {name: (family, target) for family in FAMILIES for name, target in targets_of(family).items()}
