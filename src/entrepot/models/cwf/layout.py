# SPDX-License-Identifier: Apache-2.0
"""From the plan of a message to its steps, for one code page and byte order.

Fields are gathered into runs as long as their sizes are fixed. `phase` is the
offset from the beginning of the message, modulo 16, as long as it is known:
alignment then is a gap like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from entrepot.errors import ModelInvalid
from entrepot.models.cwf.fields import REST_OF_MESSAGE, FieldCodec, Setting, field_codec
from entrepot.models.cwf.groups import (
    Alternative,
    Count,
    Derive,
    ElementContent,
    RepeatedStep,
    SizedSteps,
    choice_step,
    structure_step,
)
from entrepot.models.cwf.logical_values import logical_value
from entrepot.models.cwf.plan import Derived, FieldPlan, GroupPlan, repeats
from entrepot.models.cwf.sources import MISSING
from entrepot.models.cwf.steps import (
    CodecStep,
    FieldPlace,
    FixedFields,
    Gap,
    Slots,
    VaryingLength,
    align_step,
    varying_step,
    whole_count,
)
from entrepot.models.cwf.strings import count_bytes, fill, literal_bytes, pad_bytes
from entrepot.models.logical import Composition, CwfField
from entrepot.models.tree import Element

PHASES = 16
"""No alignment is wider."""

GAP_BYTES_MAX = 1 << 26
"""Filler is kept as bytes, so its size has a limit."""


class LayoutBuilder:
    """Lays out one message for one setting."""

    def __init__(self, file: str, setting: Setting) -> None:
        self._file = file
        self.setting = setting
        self._codecs: dict[int, FieldCodec] = {}

    def content(self, group: GroupPlan, phase: int | None) -> ElementContent:
        """What lies in an element."""
        if group.composition is Composition.CHOICE:
            layout = self.choice(group, phase)
        else:
            layout = self._sequence(group.members, phase)
        return ElementContent(group.name, layout, self._derive_all(group.derived) if group.derived else None)

    def _sequence(self, plans: list[FieldPlan | GroupPlan], phase: int | None) -> SizedSteps:
        laying = _Laying(self, phase)
        for plan in plans:
            laying.add(plan)
        return laying.done()

    def layout(self, plan: FieldPlan | GroupPlan, phase: int | None) -> SizedSteps:
        """One member, once, with its gaps."""
        laying = _Laying(self, phase)
        laying.add_once(plan)
        return laying.done()

    def choice(self, group: GroupPlan, phase: int | None) -> SizedSteps:
        layouts = [(member, self._sequence([member], phase)) for member in group.members]
        if not layouts:
            raise self.invalid(group.line, f"the choice {group.name} has no alternatives")
        sizes = [layout.size for _, layout in layouts]
        known = [size for size in sizes if size is not None]
        size = max(known) if len(known) == len(sizes) else None
        step = choice_step(
            [Alternative(layout, names_of(member), fitting(member)) for member, layout in layouts],
            size,
            pad_bytes(self.setting.format.padding, self.setting.page),
        )
        least = size if size is not None else min(layout.least for _, layout in layouts)
        return SizedSteps((step,), size, least, max(layout.alignment for _, layout in layouts))

    def codec(self, plan: FieldPlan) -> FieldCodec:
        held = self._codecs.get(id(plan))
        if held is None:
            try:
                held = field_codec(plan.simple, plan.physical, self.setting)
            except ValueError as error:
                raise self.invalid(plan.line, f"{plan.name or 'filler'}: {error}") from None
            self._codecs[id(plan)] = held
        return held

    def place(self, plan: FieldPlan) -> FieldPlace:
        default: Any = MISSING
        if plan.default is not None:
            try:
                default = logical_value(plan.default, plan.simple.type)
            except ValueError as error:
                raise self.invalid(plan.line, f"the default of {plan.name}: {error}") from None
        return FieldPlace(plan.name, self.codec(plan), default, plan.slot)

    def filler(self, plan: FieldPlan, size: int) -> Gap:
        """A field without a name: its default is written, or padding."""
        place = self.place(plan)
        if size > GAP_BYTES_MAX:
            raise self.invalid(plan.line, f"filler of {size} bytes is longer than {GAP_BYTES_MAX}")
        if place.default is MISSING:
            return self.gap(size, plan.physical, plan.line)
        try:
            return Gap(size, place.codec.write(place.default))
        except ValueError as error:
            raise self.invalid(plan.line, f"the value of filler: {error}") from None

    def gap(self, size: int, physical: CwfField, line: int) -> Gap:
        """Bytes to skip, and what is written there."""
        if size > GAP_BYTES_MAX:
            raise self.invalid(line, f"{size} bytes to skip are more than {GAP_BYTES_MAX}")
        page, value = self.setting.page, physical.skip_value
        try:
            pad = pad_bytes(self.setting.format.padding, page)
            if value.startswith("0x"):
                return Gap(size, fill(literal_bytes(value, page), size))
            text = page.encode(value)
        except ValueError as error:
            raise self.invalid(line, f"what is skipped: {error}") from None
        if len(text) > size:
            raise self.invalid(line, f"skip_value {value[:40]!r} is longer than the {size} bytes to skip")
        return Gap(size, text + fill(pad, size - len(text)))

    def alignment(self, physical: CwfField) -> int:
        return physical.alignment or self.setting.format.alignment or 1

    def extent(self, plan: FieldPlan) -> VaryingLength:
        """How long a field of varying length is."""
        physical, page, slot = plan.physical, self.setting.page, plan.length_slot
        in_characters = physical.length_unit == "characters" and physical.storage == "string"
        scanned = in_characters and not page.unit
        unit = page.unit if in_characters and page.unit else 1

        def wanted_length(slots: Slots) -> int:
            return physical.length if slot is None else whole_count(slots[slot], physical.length_from)

        def length_of(body: bytes, offset: int, slots: Slots) -> int:
            if physical.length == REST_OF_MESSAGE and slot is None:
                return len(body) - offset
            count = wanted_length(slots)
            if scanned and count <= len(body) - offset:
                return count_bytes(body, offset, count, page)
            return count * unit

        pad = pad_bytes(physical.padding, page) if physical.storage == "string" else b""

        def pad_to(raw: bytes, value: Any, slots: Slots) -> bytes:
            del value
            if physical.length == REST_OF_MESSAGE and slot is None:
                return raw
            has, wanted = len(page.decode(raw)) if scanned else len(raw) // unit, wanted_length(slots)
            if has > wanted or (has < wanted and not pad):
                raise ValueError(f"it has a length of {has}, and the model or the message says {wanted}")
            padding = pad * (wanted - has) if scanned else fill(pad or b"\0", wanted * unit - len(raw))
            return padding + raw if physical.justify == "right" else raw + padding

        return VaryingLength(length_of, pad_to)

    def _derive_all(self, rules: list[Derived]) -> Derive:
        """Counts and lengths from the tree; where several members share a counter, the largest count."""
        numbers = [(rule.slot, self._measure(rule)) for rule in rules]
        slots_used = {rule.slot for rule in rules}

        def derive(element: Element, slots: Slots) -> None:
            for slot in slots_used:
                slots[slot] = None  # The last repeat of this structure must not speak for this one.
            for slot, number_of in numbers:
                number = number_of(element)
                if number is not None and (slots[slot] is None or number > slots[slot]):
                    slots[slot] = number

        return derive

    def _measure(self, rule: Derived) -> Callable[[Element], int | None]:
        *outer, last = rule.keys
        measured, page = rule.measured, self.setting.page

        def count(element: Element) -> int:
            found = below(element, outer)
            return 0 if found is None else len(found.all(last))

        if measured is None:
            return count
        codec = self.codec(measured)
        characters = measured.physical.length_unit == "characters" and measured.physical.storage == "string"

        def measure(element: Element) -> int | None:
            found = below(element, outer)
            value = None if found is None else found.get(last)
            try:
                raw = b"" if value is None else codec.write(value)
            except ValueError:
                return None  # The field itself says what is wrong with it, when its turn comes.
            return len(page.decode(raw)) if characters and not page.unit else len(raw) // (characters * page.unit or 1)

        return measure

    def invalid(self, line: int, problem: str) -> ModelInvalid:
        return ModelInvalid(self._file, line, 1, problem)


def below(element: Element, keys: Sequence[str]) -> Element | None:
    found: Element | None = element
    for key in keys:
        if found is None:
            return None
        found = found.first(key)
    return found


class _Laying:
    """Puts members one behind the other."""

    def __init__(self, builder: LayoutBuilder, phase: int | None) -> None:
        self._builder = builder
        self._phase = phase
        self._parts: list[FieldPlace | Gap] = []
        self._steps: list[CodecStep] = []
        self._size: int | None = 0
        self._least = 0
        self._alignment = 1

    def add(self, plan: FieldPlan | GroupPlan) -> None:
        if not plan.name and isinstance(plan, FieldPlan) and plan.count_slot is None and plan.most is not None:
            self._add_filler(plan, plan.most)
        elif repeats(plan):
            self._add_repeat(plan)
        else:
            self.add_once(plan)

    def _add_filler(self, plan: FieldPlan, times: int) -> None:
        size = self._builder.codec(plan).size
        if size is None:
            raise self._builder.invalid(plan.line, "filler must have a fixed length")
        physical = plan.physical
        self._skip(physical.skip_before, plan)
        self._align(self._builder.alignment(physical))
        one = self._builder.filler(plan, size)
        if times * size > GAP_BYTES_MAX:
            raise self._builder.invalid(plan.line, f"filler of {times * size} bytes is longer than {GAP_BYTES_MAX}")
        self._fixed(Gap(size * times, one.content * times), size * times)
        self._skip(physical.skip_after, plan)

    def add_once(self, plan: FieldPlan | GroupPlan) -> None:
        physical = plan.physical
        self._skip(physical.skip_before, plan)
        self._align(self._builder.alignment(physical))
        if isinstance(plan, FieldPlan):
            self._add_field(plan)
        elif not plan.name and plan.composition is not Composition.CHOICE:
            for member in plan.members:
                self.add(member)
        elif not plan.name:
            self._add_layout(self._builder.choice(plan, self._phase))
        else:
            content = self._builder.content(plan, self._phase)
            inner = content.layout
            self._add_layout(SizedSteps((structure_step(content),), inner.size, inner.least, inner.alignment))
        self._skip(physical.skip_after, plan)

    def _add_field(self, plan: FieldPlan) -> None:
        place = self._builder.place(plan)
        if place.codec.size is not None:
            self._fixed(place, place.codec.size)
        else:
            self._add_layout(SizedSteps((varying_step(place, self._builder.extent(plan)),), None, 0, 1))

    def _add_repeat(self, plan: FieldPlan | GroupPlan) -> None:
        builder, physical = self._builder, plan.physical
        alignment = builder.alignment(physical)
        if not physical.skip_before:
            self._align(alignment)
        unit = builder.layout(plan, self._phase)
        same = unit.size is not None and unit.size % unit.alignment == 0
        if unit.alignment > 1 and (not same or (physical.skip_before and alignment > 1)):
            # The second one begins at another distance from its boundaries than the first.
            unit = builder.layout(plan, None)
        inside = None
        if isinstance(plan, GroupPlan) and unit.size is not None and not physical.skip_before + physical.skip_after:
            inside = builder.content(plan, self._phase) if plan.name else None
        count = Count(plan.most, plan.count_slot, plan.count_name)
        step = RepeatedStep(plan.name, unit, count, names_of(plan), inside).step()
        fixed = unit.size is not None and plan.count_slot is None and plan.most is not None
        least = plan.most * unit.least if plan.count_slot is None and plan.most is not None else 0
        size = plan.most * unit.size if fixed and plan.most is not None and unit.size is not None else None
        self._add_layout(SizedSteps((step,), size, least, unit.alignment))

    def _add_layout(self, layout: SizedSteps) -> None:
        self._flush()
        self._steps += layout.steps
        self._advance(layout.size, layout.least)
        self._alignment = max(self._alignment, layout.alignment)

    def _fixed(self, part: FieldPlace | Gap, size: int) -> None:
        self._parts.append(part)
        self._advance(size, size)

    def _skip(self, size: int, plan: FieldPlan | GroupPlan) -> None:
        if size:
            self._fixed(self._builder.gap(size, plan.physical, plan.line), size)

    def _align(self, boundary: int) -> None:
        if boundary <= 1:
            return
        self._alignment = max(self._alignment, boundary)
        if self._phase is None:
            self._add_layout(SizedSteps((align_step(boundary),), None, 0, boundary))
        elif self._phase % boundary:
            slack = -self._phase % boundary
            self._fixed(Gap(slack, bytes(slack)), slack)

    def _advance(self, size: int | None, least: int) -> None:
        self._least += least
        self._size = None if size is None or self._size is None else self._size + size
        self._phase = None if size is None or self._phase is None else (self._phase + size) % PHASES

    def _flush(self) -> None:
        if self._parts:
            self._steps.append(FixedFields(self._parts, self._run_endian()).step())
            self._parts = []

    def _run_endian(self) -> str:
        """The order of most numbers in the run; the others are unpacked one by one."""
        orders: list[str] = [
            part.codec.endian or "" for part in self._parts if isinstance(part, FieldPlace) and part.codec.code
        ]
        return max(("big", "little"), key=orders.count)

    def done(self) -> SizedSteps:
        self._flush()
        return SizedSteps(tuple(self._steps), self._size, self._least, self._alignment)


def names_of(plan: FieldPlan | GroupPlan) -> frozenset[str]:
    """The names that elements of it have in the tree."""
    if plan.name or isinstance(plan, FieldPlan):
        return frozenset((plan.name,)) if plan.name else frozenset()
    return frozenset().union(*(names_of(member) for member in plan.members))


def fitting(plan: FieldPlan | GroupPlan) -> Callable[[list[Element]], bool] | None:
    """Whether an alternative's enumerations hold; None where it has none."""
    rules = list(_enumerations(plan, ()))
    if not rules:
        return None

    def fits(elements: list[Element]) -> bool:
        first = {element.key: element for element in reversed(elements)}
        for (key, *keys), values in rules:
            found = below(first[key], keys) if key in first else None
            if found is not None and found.value not in values:
                return False
        return True

    return fits


def _enumerations(plan: FieldPlan | GroupPlan, above: tuple[str, ...]) -> list[tuple[tuple[str, ...], frozenset[Any]]]:
    keys = (*above, plan.name) if plan.name else above
    if isinstance(plan, GroupPlan):
        if repeats(plan) or plan.composition is Composition.CHOICE:
            return []
        return [rule for member in plan.members for rule in _enumerations(member, keys)]
    values = enumerated(plan)
    return [] if values is None else [(keys, values)]


def enumerated(plan: FieldPlan) -> frozenset[Any] | None:
    """The values that a field must have for its alternative to be meant; None where it does not say."""
    if not plan.simple.values or repeats(plan):
        return None
    try:
        return frozenset(logical_value(text, plan.simple.type) for text in plan.simple.values)
    except ValueError:
        return None
