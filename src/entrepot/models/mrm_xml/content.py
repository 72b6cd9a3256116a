# SPDX-License-Identifier: Apache-2.0
"""Which member of a model each child belongs to: sequences, choices and groups with their occurrences.

A content model is read from left to right with one name of look-ahead, as
XML Schema demands of its models (unique particle attribution). So matching
takes time in proportion to the names and the members, and never goes back.
The same code matches tags when reading and names when writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from entrepot.models.logical import Composition, Structure, StructureMember


@dataclass(frozen=True, slots=True)
class Mismatch(Exception):
    """The children do not fit: at which of them, and why."""

    position: int
    problem: str


@dataclass(slots=True)
class Particle:
    """A member or a group, and how often it may come."""

    name: str
    """For people; the name that is matched is in `first`."""
    index: int
    """Of the member among all of its structure, groups included; -1 for a group."""
    least: int
    most: int | None
    composition: Composition = Composition.SEQUENCE
    parts: list[Particle] = field(default_factory=list)
    first: frozenset[str] = frozenset()
    """Names that it can begin with."""
    may_be_empty: bool = False

    def close(self) -> None:
        """Work out what it can begin with, after its parts are known."""
        names: set[str] = set()
        if self.composition is Composition.SEQUENCE:
            for part in self.parts:
                names |= part.first
                if not part.may_be_empty:
                    break
        else:
            for part in self.parts:
                names |= part.first
        every = all if self.composition is not Composition.CHOICE else any
        self.first = frozenset(names)
        self.may_be_empty = self.least == 0 or every(part.may_be_empty for part in self.parts)


def particle_of(
    structure: Structure, names: dict[int, str], skipped: Iterable[int] = ()
) -> tuple[Particle, list[StructureMember]]:
    """The content model of a structure, and its named members in order of their index.

    Args:
        names: What a member is matched by, by the identity of the member.
        skipped: Identities of members that are none of the content: attributes.
    """
    members: list[StructureMember] = []
    skip = frozenset(skipped)
    root = _group(structure, "", 1, 1, names, skip, members)
    return root, members


def _group(
    structure: Structure,
    name: str,
    least: int,
    most: int | None,
    names: dict[int, str],
    skip: frozenset[int],
    members: list[StructureMember],
) -> Particle:
    group = Particle(name, -1, least, most, structure.composition)
    for member in structure.members:
        if id(member) in skip:
            continue
        if member.name:
            part = Particle(member.name, len(members), member.min_occurs, member.max_occurs)
            part.first = frozenset({names[id(member)]})
            part.may_be_empty = member.min_occurs == 0
            members.append(member)
        else:
            assert isinstance(member.content, Structure)
            called = " or ".join(each.name for each in member.content.members[:5]) or "group"
            part = _group(member.content, called, member.min_occurs, member.max_occurs, names, skip, members)
        group.parts.append(part)
    group.close()
    return group


def assign(particle: Particle, names: Sequence[str]) -> list[int]:
    """The index of the member that each name belongs to.

    Raises:
        Mismatch: Says which name is wrong, or what is missing before it.
    """
    found: list[int] = []
    position = _repeat(particle, names, 0, found)
    if position < len(names):
        raise Mismatch(position, "it is not expected here")
    return found


def _repeat(particle: Particle, names: Sequence[str], position: int, found: list[int]) -> int:
    count, total = 0, len(names)
    most = total - position + 1 if particle.most is None else particle.most
    while count < most and position < total and names[position] in particle.first:
        before = position
        if particle.index >= 0:
            found.append(particle.index)
            position += 1
        else:
            position = _once(particle, names, position, found)
        count += 1
        if position == before:
            break
    if count < particle.least and not (particle.index < 0 and particle.may_be_empty):
        wanted = _needed(particle)
        problem = f"{wanted} is missing" if not count else f"{wanted} is there {count} times"
        raise Mismatch(position, f"{problem}; it must be there {_occurrences(particle)}")
    return position


def _once(group: Particle, names: Sequence[str], position: int, found: list[int]) -> int:
    if group.composition is Composition.SEQUENCE:
        for part in group.parts:
            position = _repeat(part, names, position, found)
        return position
    if group.composition is Composition.CHOICE:
        for part in group.parts:
            if names[position] in part.first:
                return _repeat(part, names, position, found)
        return position
    waiting = list(group.parts)
    while waiting and position < len(names):
        chosen = next((part for part in waiting if names[position] in part.first), None)
        if chosen is None:
            break
        waiting.remove(chosen)
        position = _repeat(chosen, names, position, found)
    for part in waiting:
        if not part.may_be_empty:
            raise Mismatch(position, f"{part.name} is missing; it must be there {_occurrences(part)}")
    return position


def _needed(particle: Particle) -> str:
    """What a particle cannot do without, by name."""
    if particle.index >= 0:
        return particle.name
    needed = [_needed(part) for part in particle.parts if not part.may_be_empty]
    if particle.composition is Composition.CHOICE:
        return " or ".join(needed[:5])
    return needed[0] if needed else particle.name


def _occurrences(particle: Particle) -> str:
    if particle.most is None:
        return f"at least {particle.least} times" if particle.least > 1 else "at least once"
    if particle.least == particle.most:
        return "once" if particle.least == 1 else f"{particle.least} times"
    return f"{particle.least} to {particle.most} times"
