# SPDX-License-Identifier: Apache-2.0
"""Structures, repeats and choices: steps that are made of other steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from entrepot.limits import BODY_BYTES_MAX
from entrepot.models.cwf.sources import Children
from entrepot.models.cwf.steps import (
    PROBLEMS,
    CodecStep,
    FixedFields,
    Slots,
    Unreadable,
    Unwritable,
    ends_early,
    whole_count,
)
from entrepot.models.cwf.strings import fill
from entrepot.models.element_types import NAME
from entrepot.models.tree import Element

Derive = Callable[[Element, Slots], None]
"""Fills slots from what an element holds."""


@dataclass(frozen=True, slots=True)
class SizedSteps:
    """Some steps, and how many bytes they take."""

    steps: tuple[CodecStep, ...]
    size: int | None
    """None where it depends on the message."""
    least: int
    """What they take at least."""
    alignment: int
    """The widest boundary that something in it keeps."""

    @property
    def run(self) -> FixedFields | None:
        """The only step, if that is a run."""
        return self.steps[0].run if len(self.steps) == 1 else None


def parse_steps(steps: tuple[CodecStep, ...], body: bytes, offset: int, slots: Slots, out: list[Element]) -> int:
    for step in steps:
        offset = step.parse(body, offset, slots, out)
    return offset


# --- structures -----------------------------------------------------------------------------------


class ElementContent:
    """What lies in an element: reading its children and writing them."""

    __slots__ = ("_derive", "layout", "name", "run")

    def __init__(self, name: str, layout: SizedSteps, derive: Derive | None) -> None:
        self.name = name
        self.layout = layout
        self.run = layout.run
        self._derive = derive

    def read(self, body: bytes, offset: int, slots: Slots) -> tuple[list[Element], int]:
        children: list[Element] = []
        for step in self.layout.steps:
            offset = step.parse(body, offset, slots, children)
        return children, offset

    def write(self, element: Element, position: int, slots: Slots, out: list[bytes]) -> int:
        children = element.children
        if not children and element.value is not None:
            raise Unwritable("it has a value where the model has a structure")
        run = self.run
        if run is not None and run.compiled is not None and not run.slotted:
            try:
                raw = run.compiled.write_elements(children)
            except PROBLEMS:
                raw = None
            if raw is not None:
                out.append(raw)
                return position + run.size
        if run is not None and [child.key for child in children] == run.names:
            return run.put([child.value for child in children], position, slots, out)
        if self._derive is not None:
            self._derive(element, slots)
        source = Children(children)
        for step in self.layout.steps:
            position = step.render(source, position, slots, out)
        left = source.left_over()
        if left is not None:
            raise Unwritable("the model has no such element there, or fewer of them", left)
        return position


def structure_step(content: ElementContent) -> CodecStep:
    """An element with children."""
    name = content.name

    def parse(body: bytes, offset: int, slots: Slots, out: list[Element]) -> int:
        try:
            children, offset = content.read(body, offset, slots)
        except Unreadable as error:
            error.names.append(name)
            raise
        element = Element(name, None, NAME)
        element.fill(children)
        out.append(element)
        return offset

    def render(source: Children, position: int, slots: Slots, out: list[bytes]) -> int:
        # Where there is none, its members may still have defaults.
        element = source.one(name) or Element(name, None, NAME)
        try:
            return content.write(element, position, slots, out)
        except Unwritable as error:
            error.names.append(name)
            raise

    return CodecStep(parse, render)


# --- repeats --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Count:
    """How often something occurs."""

    most: int | None
    slot: int | None = None
    counter: str = ""
    """The member whose value is in the slot."""

    def number_in(self, slots: Slots) -> int | None:
        """The number that the message or the model says; None where it is as many as there are.

        Raises:
            ValueError: The message says no number, or one that the model does not allow.
        """
        if self.slot is None:
            return self.most
        number = whole_count(slots[self.slot], self.counter)
        if self.most is not None and number > self.most:
            raise ValueError(f"{self.counter} says {number} repeats, and the model allows {self.most}")
        return number


class RepeatedStep:
    """Something that occurs more than once."""

    __slots__ = ("_count", "_name", "_names", "_quick", "_unit")

    def __init__(
        self, name: str, unit: SizedSteps, count: Count, names: frozenset[str], inside: ElementContent | None
    ) -> None:
        self._name = name
        self._unit = unit
        self._count = count
        self._names = names
        self._quick = _quick_reader(name, unit, inside)

    def step(self) -> CodecStep:
        return CodecStep(self.parse, self.render if self._name else self.render_hidden)

    def parse(self, body: bytes, offset: int, slots: Slots, out: list[Element]) -> int:
        left = len(body) - offset
        least = self._unit.least
        try:
            count = self._count.number_in(slots)
        except PROBLEMS as error:
            raise Unreadable(str(error), offset, self._name) from None
        if count is None:
            number = left // least if self._unit.size else len(body)
        elif count * least > left or count > max(len(body), 1):
            # Before anything is made: a count of a thousand million must not cost a thousand million elements.
            raise ends_early(offset, count * max(least, 1), body, self._name)
        else:
            number = count
        if self._quick is not None:
            made = self._quick(body, offset, number)
            if made is not None:
                out += made
                return offset + number * least
        return self._parse_each(number, count is None, body, offset, slots, out)

    def _parse_each(
        self, number: int, to_the_end: bool, body: bytes, offset: int, slots: Slots, out: list[Element]
    ) -> int:
        steps = self._unit.steps
        index = 0
        try:
            while index < number and not (to_the_end and offset >= len(body)):
                for step in steps:
                    offset = step.parse(body, offset, slots, out)
                index += 1
        except Unreadable as error:
            _number(error.names, self._name, index)
            raise
        return offset

    def render(self, source: Children, position: int, slots: Slots, out: list[bytes]) -> int:
        count = self._count
        elements = source.up_to(self._name, count.most)
        missing = 0
        try:
            expected = count.number_in(slots)
        except PROBLEMS as error:
            raise Unwritable(str(error), self._name) from None
        if expected is not None and expected != len(elements):
            if count.slot is not None:
                problem = f"there are {len(elements)} of it, and {count.counter} says {expected}"
                raise Unwritable(problem, self._name)
            missing = expected - len(elements)
        index = 0
        try:
            for element in elements:
                one = Children((element,))
                for step in self._unit.steps:
                    position = step.render(one, position, slots, out)
                index += 1
            if missing:
                position = self._render_missing(missing, position, slots, out)
        except Unwritable as error:
            _number(error.names, self._name, index)
            raise
        return position

    def _render_missing(self, number: int, position: int, slots: Slots, out: list[bytes]) -> int:
        """Defaults for those that the tree does not have: one of them, as often as needed."""
        one: list[bytes] = []
        nothing = Children(())
        at = position
        for step in self._unit.steps:
            at = step.render(nothing, at, slots, one)
        raw = b"".join(one)
        if position + number * len(raw) > BODY_BYTES_MAX:
            raise Unwritable(f"the message would be longer than {BODY_BYTES_MAX} bytes")
        out.append(raw * number)
        return position + number * len(raw)

    def render_hidden(self, source: Children, position: int, slots: Slots, out: list[bytes]) -> int:
        """A group without a name: its members lie side by side with those of the next one."""
        try:
            expected = self._count.number_in(slots)
        except PROBLEMS as error:
            raise Unwritable(str(error)) from None
        done = 0
        while done < expected if expected is not None else source.has_any(self._names):
            for step in self._unit.steps:
                position = step.render(source, position, slots, out)
            if position > BODY_BYTES_MAX:
                raise Unwritable(f"the message would be longer than {BODY_BYTES_MAX} bytes")
            done += 1
        return position


def _number(names: list[str], name: str, index: int) -> None:
    """Say in a path which of the repeats it is."""
    if name and names and names[-1] == name:
        names[-1] = f"{name}[{index + 1}]"
    elif name:
        names.append(f"{name}[{index + 1}]")


def _quick_reader(
    name: str, unit: SizedSteps, inside: ElementContent | None
) -> Callable[[bytes, int, int], list[Element] | None] | None:
    """For repeats that are nothing but a run: all of them by one `struct`. None where something is wrong."""
    run = unit.run if inside is None else inside.layout.run
    if run is None or unit.size is None or run.slotted or run.size != unit.size or not name:
        return None
    unpack, make, structured = run.unpacker.iter_unpack, run.elements, inside is not None

    def read(body: bytes, offset: int, number: int) -> list[Element] | None:
        found: list[Element] = []
        try:
            for values in unpack(body[offset : offset + number * run.size]):
                if structured:
                    element = Element(name, None, NAME)
                    element.fill(make(values))
                    found.append(element)
                else:
                    found += make(values)
        except PROBLEMS:
            return None
        return found

    return read


# --- choices --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alternative:
    layout: SizedSteps
    names: frozenset[str]
    """What its elements can be called."""
    fits: Callable[[list[Element]], bool] | None
    """Whether members with an enumeration hold one of its values; None where it has no such member."""


def choice_step(alternatives: list[Alternative], size: int | None, padding: bytes) -> CodecStep:
    """One of several that lie over each other.

    When read, it is the first whose bytes can be read and whose enumerations
    hold; if the enumerations of none hold, the first whose bytes can be read.
    When written, it is the one that the tree has, padded to the longest.
    """

    def parse(body: bytes, offset: int, slots: Slots, out: list[Element]) -> int:
        if size is not None and offset + size > len(body):
            raise ends_early(offset, size, body)
        second_best: tuple[list[Element], int] | None = None
        problems: list[str] = []
        for alternative in alternatives:
            found: list[Element] = []
            try:
                end = parse_steps(alternative.layout.steps, body, offset, slots, found)
            except Unreadable as error:
                problems.append(f"{'.'.join(reversed(error.names))}: {error.problem}")
                continue
            if alternative.fits is None or alternative.fits(found):
                break
            second_best = second_best or (found, end)
        else:
            if second_best is None:
                raise Unreadable(f"none of the alternatives can be read: {'; '.join(problems[:5])}", offset)
            found, end = second_best
        out += found
        return end if size is None else offset + size

    def render(source: Children, position: int, slots: Slots, out: list[bytes]) -> int:
        present = next((one for one in alternatives if source.has_any(one.names)), None)
        chosen = present or alternatives[0]
        start = position
        try:
            for step in chosen.layout.steps:
                position = step.render(source, position, slots, out)
        except Unwritable:
            if present is not None:
                raise
            names = ", ".join(sorted(name for one in alternatives for name in one.names))
            raise Unwritable(f"none of {names} is there, and the model has no defaults for them") from None
        if size is not None and position < start + size:
            out.append(fill(padding, start + size - position))
            position = start + size
        return position

    return CodecStep(parse, render)
