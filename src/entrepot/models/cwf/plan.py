# SPDX-License-Identifier: Apache-2.0
"""What CWF needs to know of a message before code page and byte order are known.

The model is walked once. Members that hold a count or a length for later ones
get a slot, where the value is kept while a message is read or written, and the
structure that holds both learns how to find a count that the tree leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from entrepot.errors import ModelInvalid
from entrepot.models.cwf.fields import LENGTH_MAX, REST_OF_MESSAGE
from entrepot.models.logical import Composition, CwfField, MessageSet, Simple, Structure, StructureMember, ValueType

LEVELS_MAX = 100
"""How deep structures may be nested. COBOL has levels up to 49."""


@dataclass(slots=True, eq=False)
class FieldPlan:
    """A simple element; one without a name is filler."""

    name: str
    simple: Simple
    physical: CwfField
    least: int
    most: int | None
    default: str | None
    line: int
    count_slot: int | None = None
    count_name: str = ""
    length_slot: int | None = None
    slot: int | None = None
    """Where its own value is kept for others."""


@dataclass(slots=True, eq=False)
class GroupPlan:
    """A structure; one without a name is not to be seen in the tree."""

    name: str
    physical: CwfField
    composition: Composition
    least: int
    most: int | None
    line: int
    members: list[FieldPlan | GroupPlan] = field(default_factory=list)
    count_slot: int | None = None
    count_name: str = ""
    derived: list[Derived] = field(default_factory=list)
    """Counts and lengths that can be told from what lies below this structure."""

    @property
    def repeats(self) -> bool:
        return repeats(self)


@dataclass(frozen=True, slots=True)
class Derived:
    """How to tell a count or length that the tree does not say."""

    slot: int
    keys: tuple[str, ...]
    """The names from the structure down to what is counted or measured."""
    measured: FieldPlan | None = None


def repeats(plan: FieldPlan | GroupPlan) -> bool:
    """Whether there can be more than one, or none."""
    return plan.most != 1 or plan.count_slot is not None


@dataclass(frozen=True, slots=True)
class _Declared:
    plan: FieldPlan
    above: tuple[GroupPlan, ...]


class Planner:
    """Makes the plan of one message."""

    def __init__(self, message_set: MessageSet, format_name: str) -> None:
        self._file = message_set.file or message_set.name
        self._format = format_name
        self._declared: dict[str, list[_Declared]] = {}
        self.slots = 0

    def plan(self, name: str, structure: Structure) -> GroupPlan:
        """
        Raises:
            ModelInvalid: Says file, line and what is wrong.
        """
        root = GroupPlan(name, CwfField("structure"), structure.composition, 1, 1, 0)
        self._fill(root, structure, (root,))
        return root

    def _fill(self, group: GroupPlan, structure: Structure, above: tuple[GroupPlan, ...]) -> None:
        if len(above) > LEVELS_MAX:
            raise self._invalid(group.line, f"{group.name} is nested more than {LEVELS_MAX} levels deep")
        for member in structure.members:
            physical = self._physical(member)
            content = member.content
            if isinstance(content, Structure):
                inner = GroupPlan(
                    member.name, physical, content.composition, member.min_occurs, member.max_occurs, member.line
                )
                self._repeat(inner, physical, above)
                group.members.append(inner)
                self._fill(inner, content, (*above, inner))
            else:
                group.members.append(self._field(member, content, physical, above))

    def _field(
        self, member: StructureMember, simple: Simple, physical: CwfField, above: tuple[GroupPlan, ...]
    ) -> FieldPlan:
        plan = FieldPlan(
            member.name, simple, physical, member.min_occurs, member.max_occurs, member.default, member.line
        )
        self._repeat(plan, physical, above)
        if physical.length_from:
            declared = self._find(physical.length_from, above, member)
            plan.length_slot = self._slot(declared)
            self._derive(declared, plan.length_slot, above, plan, measured=plan)
        if member.name:
            self._declared.setdefault(_local(member.name), []).append(_Declared(plan, above))
        return plan

    def _physical(self, member: StructureMember) -> CwfField:
        physical = member.physical.get(self._format)
        if isinstance(member.content, Structure):
            physical = physical or CwfField("structure")
        elif physical is None:
            raise self._invalid(member.line, f"{member.name} has no physical properties in format {self._format}")
        if not isinstance(physical, CwfField):
            raise self._invalid(member.line, f"what {member.name} says for format {self._format} is not for CWF")
        if physical.alignment not in (0, 1, 2, 4, 8, 16):
            raise self._invalid(member.line, f"{member.name} has alignment {physical.alignment}, not 1, 2, 4, 8 or 16")
        if not 0 <= physical.skip_before <= LENGTH_MAX or not 0 <= physical.skip_after <= LENGTH_MAX:
            raise self._invalid(member.line, f"{member.name} skips fewer bytes than none, or too many")
        if physical.length < REST_OF_MESSAGE:
            raise self._invalid(member.line, f"{member.name} has length {physical.length}")
        return physical

    def _repeat(self, plan: FieldPlan | GroupPlan, physical: CwfField, above: tuple[GroupPlan, ...]) -> None:
        if plan.least < 0 or (plan.most is not None and (plan.most < plan.least or plan.most < 1)):
            raise self._invalid(plan.line, f"{plan.name} occurs {plan.least} to {plan.most} times, which cannot be")
        if not physical.count_from:
            return
        declared = self._find(physical.count_from, above, plan)
        plan.count_slot = self._slot(declared)
        plan.count_name = declared.plan.name
        if plan.name:
            self._derive(declared, plan.count_slot, above, plan)

    def _slot(self, declared: _Declared) -> int:
        if declared.plan.slot is None:
            declared.plan.slot = self.slots
            self.slots += 1
        return declared.plan.slot

    def _find(
        self, name: str, above: tuple[GroupPlan, ...], wanting: StructureMember | FieldPlan | GroupPlan
    ) -> _Declared:
        """The member that a count or length comes from: the nearest earlier one of that name."""
        *outer, last = name.replace("/", ".").split(".") if not name.startswith("{") else [name]
        best: tuple[int, _Declared] | None = None
        for candidate in self._declared.get(_local(last), ()):
            shared = _shared(candidate.above, above)
            names = [_local(group.name) for group in candidate.above if group.name]
            if any(group.repeats for group in candidate.above[shared:]) or repeats(candidate.plan):
                continue
            if not _in_order(outer, names):
                continue
            if best is None or shared >= best[0]:
                best = shared, candidate
        if best is None:
            problem = (
                f"{wanting.name} refers to {name}, and no earlier member of that name occurs exactly once beside it"
            )
            raise self._invalid(wanting.line, problem)
        if best[1].plan.simple.type not in (ValueType.INTEGER, ValueType.DECIMAL):
            raise self._invalid(wanting.line, f"{wanting.name} refers to {name}, which is no number")
        return best[1]

    def _derive(
        self,
        declared: _Declared,
        slot: int,
        above: tuple[GroupPlan, ...],
        plan: FieldPlan | GroupPlan,
        measured: FieldPlan | None = None,
    ) -> None:
        shared = _shared(declared.above, above)
        owner = shared - 1
        while owner > 0 and not above[owner].name:
            if above[owner].repeats:
                return  # Which of the repeats is meant cannot be told from the tree.
            owner -= 1
        keys = (*(group.name for group in above[owner + 1 :] if group.name), plan.name)
        above[owner].derived.append(Derived(slot, keys, measured))

    def _invalid(self, line: int, problem: str) -> ModelInvalid:
        return ModelInvalid(self._file, line, 1, problem)


def _shared(first: tuple[GroupPlan, ...], second: tuple[GroupPlan, ...]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one is not other:
            break
        count += 1
    return count


def _in_order(wanted: list[str], names: list[str]) -> bool:
    """Whether all wanted names are among the others, in this order: COBOL may leave some out between OF and OF."""
    left = iter(names)
    return all(name in left for name in wanted)


def _local(name: str) -> str:
    return name[name.index("}") + 1 :] if name[:1] == "{" else name
