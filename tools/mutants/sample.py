# SPDX-License-Identifier: Apache-2.0
"""The mutants of a campaign: the same ones for the same sources and seed, from every room and operator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from .operators import OPERATORS, Mutation, mutations
from .rooms import ROOMS, SOURCE, Room, module_name


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, and where it is planted."""

    room: Room
    path: Path
    mutation: Mutation

    @property
    def name(self) -> str:
        """Stays the same while lines move; `survivors.yaml` has reasons by it."""
        module = self.path.relative_to(SOURCE).as_posix()
        return f"{module}::{self.mutation.function}::{self.mutation.operator} {self.mutation.ordinal}"

    @property
    def module(self) -> str:
        return module_name(self.path)

    @property
    def source(self) -> bytes:
        return self.mutation.apply(self.path.read_bytes())

    @property
    def fingerprint(self) -> str:
        """Of the mutated module: a result is of use only for what was run."""
        return hashlib.sha256(self.source).hexdigest()[:16]


def all_mutants(only: str = "") -> list[Mutant]:
    """Every mutant whose name contains `only`."""
    every = [
        Mutant(room, path, mutation)
        for room in ROOMS
        for path in room.files()
        for mutation in mutations(path.read_bytes())
    ]
    return [mutant for mutant in every if only in mutant.name]


def chosen(count: int, seed: int, only: str = "") -> list[Mutant]:
    """About as many from each room, and within a room from each operator, as there are.

    A change of one module leaves the sample of the others as it is.
    """
    piles: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in sorted(all_mutants(only), key=lambda mutant: _place(mutant, seed)):
        piles.setdefault((mutant.room.name, mutant.mutation.operator), []).append(mutant)
    sample: list[Mutant] = []
    while len(sample) < count and any(piles.values()):
        for operator in OPERATORS:
            for room in ROOMS:
                pile = piles.get((room.name, operator))
                if pile and len(sample) < count:
                    sample.append(pile.pop())
    return sample


def _place(mutant: Mutant, seed: int) -> bytes:
    """As good as random, and the mutant's own."""
    return hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()
