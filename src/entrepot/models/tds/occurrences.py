# SPDX-License-Identifier: Apache-2.0
"""How often a member stands in a structure that has no tags, and what stands between its occurrences.

Without tags nothing but its place says what an element is. So either the
number of occurrences is fixed, or told by an earlier element, or something
ends the row: no repeat delimiter, the structure's end, or a beginning that is
not recognised.
"""

from __future__ import annotations

from entrepot.models.tds.fields import referred
from entrepot.models.tds.parts import Part, Read, Recognise, Write, Writing
from entrepot.models.tds.trouble import Reading, TextMismatch, Unwritten, found, step
from entrepot.models.tree import Element


def read_counted(part: Part, between: str, exact: int) -> Read:
    """`exact` occurrences, or as many as an earlier element says."""
    one, key, most, source = part.read, part.key, part.most, part.count_from
    least = part.least

    def read(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
        count = exact
        number = 0
        try:
            if source:
                count = referred(reading.noted, source, position)
                # Each occurrence needs a character or a delimiter, or else a number alone could ask for any memory.
                if count > end - position + 1 or count > most:
                    raise TextMismatch(position, f"{source} says {count} of it, and there is no room for so many")
            for number in range(1, count + 1):
                if between and number > 1:
                    if not text.startswith(between, position, end):
                        if number > least and not source:
                            return position
                        raise TextMismatch(position, f"a delimiter should be here, not {found(text, position, end)}")
                    position += len(between)
                position = one(text, position, end, out, reading)
        except TextMismatch as trouble:
            if key:
                trouble.steps.append(step(key, number, most))
            raise
        return position

    return read


def read_row(part: Part, between: str, present: Recognise | None, *, each: bool = False) -> Read:
    """As many as there are. `present` is asked before the first one, and before `each` if told so."""
    one, key, least, most = part.read, part.key, part.least, part.most
    width = len(between)

    def read(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
        number = 0
        try:
            while number < most:
                at = position
                if number and between:
                    if not text.startswith(between, at, end):
                        break
                    at += width
                if present is not None and (each or not number) and not present(text, at, end):
                    break
                number += 1
                position = one(text, at, end, out, reading)
                if position == at and not between:
                    # Nothing was there; it would not be there any number of times.
                    break
        except TextMismatch as trouble:
            if key:
                trouble.steps.append(step(key, number, most))
            raise
        if number < least:
            raise missing(part, text, position, end, number)
        if between and number == most and most > 1 and text.startswith(between, position, end) and part.repeat:
            crowded = TextMismatch(position, f"there may be {most} of it, and here is one more")
            if key:
                crowded.steps.append(step(key, 0, most))
            raise crowded
        return position

    return read


def read_trimmed(read: Read, part: Part) -> Read:
    """Empty occurrences at the end of a row of simple elements are no occurrences."""
    key, least = part.key, part.least

    def read_to_last(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
        before = len(out)
        position = read(text, position, end, out, reading)
        while len(out) - before > least and out[-1].key == key and out[-1].value in (None, ""):
            out.pop()
        return position

    return read_to_last


def missing(part: Part, text: str, position: int, end: int, number: int) -> TextMismatch:
    name = part.key or " or ".join(sorted({first.key for first in part.names})) or "a group"
    if part.least > 1:
        problem = (
            f"{number} of {name} are here, and there must be {part.least}; then comes {found(text, position, end)}"
        )
    else:
        problem = f"{name} is missing; here is {found(text, position, end)}"
    return TextMismatch(position, problem)


def write_row(part: Part, between: str, pad_to: int) -> Write:
    """All occurrences that the tree has; those that are missing up to `pad_to` as defaults or padding."""
    one, keys, least, most, source, fill = part.write, part.keys, part.least, part.most, part.count_from, part.fill
    key = part.key

    def write(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
        number = 0
        size = len(children)
        while index < size and children[index].key in keys:
            if number == most:
                # It may belong to what follows, or to the group's next occurrence; else the structure's end tells.
                break
            if number and between:
                pieces.append(between)
            number += 1
            start = index
            try:
                index = one(children, index, pieces, writing)
            except Unwritten as trouble:
                _number_step(trouble, key, number, most)
                raise
            if index == start:
                break
        if source:
            count = referred(writing, source, None)
            if count != number:
                raise Unwritten(f"{source} says {count} of it, but there are {number}", key)
        wanted = max(pad_to, least)
        while number < wanted:
            if fill is None and number < least and not part.nullable:
                problem = "it is missing" if most == 1 else f"there must be {least} of it, and there are {number}"
                if index < size:
                    problem += f"; here is {step(children[index].key, 0, 1)}"
                raise Unwritten(problem, key)
            if fill is None and number >= pad_to:
                break
            if number and between:
                pieces.append(between)
            if fill is None:
                pieces.append("")
            else:
                fill(pieces, writing)
            number += 1
        return index

    return write


def _number_step(trouble: Unwritten, key: str, number: int, most: int) -> None:
    if key and most > 1 and trouble.steps and trouble.steps[-1] == key:
        trouble.steps[-1] = step(key, number, most)
