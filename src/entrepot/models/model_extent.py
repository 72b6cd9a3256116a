# SPDX-License-Identifier: Apache-2.0
"""How large a message model is when every type is written out where it is used.

Types that use each other twice on thirty levels make a short file and a
thousand million elements; the loaders refuse such models.
"""

from __future__ import annotations

from entrepot.models.logical import Structure

NESTING_MAX = 100
"""How deep a model may nest."""

MEMBERS_MAX = 200_000
"""How many members a message may have, each type counted wherever it is used."""


PROBLEM_CHARACTERS_MAX = 500
"""What is wrong is told with words of the file, and those may be as long as it is."""


def extent(structure: Structure, known: dict[int, tuple[Structure, int]]) -> int:
    """The number of members at and below a structure; `known` keeps what was counted, for the next time."""
    counted = known.get(id(structure))
    if counted is None:
        size = len(structure.members)
        for member in structure.members:
            if isinstance(member.content, Structure):
                size += extent(member.content, known)
        # The structure is kept with its size, so that its identity is not given to another one.
        counted = known[id(structure)] = (structure, size)
    return counted[1]
