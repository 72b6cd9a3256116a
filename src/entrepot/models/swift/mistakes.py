# SPDX-License-Identifier: Apache-2.0
"""All that is wrong with the text of a message, for people.

Walks the same tables as the codec, but goes on after a mistake: a field at the
wrong place is looked at all the same, an unknown one is passed over, a sequence
without an end is ended where its neighbour begins. So one reading tells the
sender everything, and a mistake seldom brings others with it.
"""

from __future__ import annotations

from entrepot.models.swift.rules import FieldRule, SequenceRule
from entrepot.models.swift.tables import TOP, QualifierCount, SequenceEntry, SequenceTable

PROBLEMS_MAX = 100
"""More than this are not reported."""


def explain(table: SequenceTable, fields: list[str], first_line: int) -> list[str]:
    """The problems of the fields of block 4; `first_line` is the line of the first of them."""
    return _Explainer(table, fields, first_line).problems()


class _Frame:
    """A sequence that is open."""

    __slots__ = ("label", "occurrences", "place", "present", "seen", "table")

    def __init__(self, table: SequenceTable, label: str) -> None:
        self.table = table
        self.label = label
        self.place = TOP
        self.present: set[int] = set()
        self.seen: dict[int, list[tuple[str, int]]] = {}
        """Qualifiers and numbers of their fields, by place."""
        self.occurrences: dict[str, int] = {}


class _Explainer:
    def __init__(self, table: SequenceTable, fields: list[str], first_line: int) -> None:
        self.fields = fields
        self.lines: list[int] = []
        line = first_line
        for field in fields:
            self.lines.append(line)
            line += field.count("\n") + 1
        self.last_line = line
        self.found: list[str] = []
        self.frames = [_Frame(table, "")]

    def problems(self) -> list[str]:
        number = 0
        while number < len(self.fields) and len(self.found) < PROBLEMS_MAX:
            number = self.step(number)
        if len(self.found) < PROBLEMS_MAX:
            while len(self.frames) > 1:
                self.leave_open(len(self.fields))
            self.close(len(self.fields))
        if len(self.found) >= PROBLEMS_MAX:
            self.found[PROBLEMS_MAX:] = ["there are more problems"]
        return self.found

    def step(self, number: int) -> int:
        """Deal with one field; gives the number of the next."""
        field = self.fields[number]
        frame = self.frames[-1]
        tag, colon, value = field.partition(":")
        entry = (frame.table.fields.get(tag) if colon else None) or frame.table.opens.get(field)
        if field and field == frame.table.end:
            self.close(number)
            return number + 1
        in_group = not frame.table.end and len(self.frames) > 1
        if in_group and (entry is None or entry.place < frame.place or self.is_again(frame, entry)):
            self.close(number)
            return number
        if entry is None:
            return self.stray(number, tag)
        self.order(frame, entry, number)
        if entry.table is not None:
            self.open(frame, entry)
            return number + (entry.tag == field)
        self.look_at(frame, entry, number, value)
        return number + 1

    # --- places ------------------------------------------------------------------------------------

    def is_again(self, frame: _Frame, entry: SequenceEntry) -> bool:
        return entry.place == frame.place and not entry.repeatable

    def order(self, frame: _Frame, entry: SequenceEntry, number: int) -> None:
        at = entry.place
        members = frame.table.rule.members
        if at > frame.place:
            skipped = [
                place
                for place in range(frame.place + 1, at)
                if members[place].occurs_min and place not in frame.present
            ]
            later = {place: self.comes_later(frame, place, number) for place in skipped}
            early = next((place for place in skipped if later[place]), None)
            if early is None:
                for place in skipped:
                    self.missing(frame, members[place], self.before(number))
                frame.place = at
            else:
                # The others are where they should be; this one is not, and what follows is measured without it.
                rightful = f"{_member_label(members[early])} (line {self.lines[later[early]]})"
                self.report(frame, number, f"{_called(entry)} comes too early, {rightful} belongs before it")
        elif at < frame.place and at not in frame.present:
            behind = _member_label(members[frame.place])
            self.report(frame, number, f"{_called(entry)} comes too late, its place is before {behind}")
        elif at < frame.place:
            self.report(frame, number, f"{_called(entry)} is there again, apart from the first")
        elif self.is_again(frame, entry):
            self.report(frame, number, f"{_called(entry)} is there twice, once is allowed")
        frame.present.add(at)

    def comes_later(self, frame: _Frame, place: int, number: int) -> int:
        """The number of the field further on in the same sequence that is missed here; 0 when there is none."""
        depth = 0
        for ahead in range(number, len(self.fields)):
            field = self.fields[ahead]
            tag = field.partition(":")[0]
            if not depth:
                entry = frame.table.fields.get(tag) or frame.table.opens.get(field)
                if entry is not None and entry.place == place:
                    return ahead
            depth += (tag == "16R") - (tag == "16S")
            if depth < 0:
                break
        return 0

    def stray(self, number: int, tag: str) -> int:
        """A field that this sequence does not have."""
        field = self.fields[number]
        frame = self.frames[-1]
        if tag == "16S" and any(outer.table.end == field for outer in self.frames):
            while self.frames[-1].table.end != field:
                self.leave_open(number)
            return number
        if tag == "16R" and any(field in outer.table.opens for outer in self.frames):
            while field not in self.frames[-1].table.opens:
                self.leave_open(number)
            return number
        expected = " or ".join(frame.table.expected(frame.place)) or "the end"
        if tag == "16R":
            self.report(
                frame, number, f"sequence {field[4:] or 'without a name'} does not belong here; expected {expected}"
            )
            end = f"16S:{field[4:]}"
            rest = self.fields[number:]
            return number + rest.index(end) + 1 if end in rest else number + 1
        if tag == "16S":
            self.report(frame, number, f"{field} ends nothing that is open")
        elif not field.partition(":")[1] or not 2 <= len(tag) <= 3:
            self.report(frame, number, f"{field[:20]!r} is no field; expected {expected}")
        else:
            self.report(frame, number, f"field {tag} does not belong here; expected {expected}")
        return number + 1

    def open(self, frame: _Frame, entry: SequenceEntry) -> None:
        assert entry.table is not None
        rule = entry.table.rule
        many = frame.occurrences[rule.name] = frame.occurrences.get(rule.name, 0) + 1
        label = f"{rule.label} ({_ordinal(many)})" if rule.occurs_max is None else rule.label
        self.frames.append(_Frame(entry.table, label))

    def leave_open(self, number: int) -> None:
        """End a sequence that has no end of its own."""
        frame = self.frames[-1]
        if frame.table.end:
            self.found.append(f"{frame.label}: {frame.table.end} is missing {self.before(number)}")
        self.close(number)

    def before(self, number: int) -> str:
        if number < len(self.fields):
            return f"before {_tag_of(self.fields[number])} (line {self.lines[number]})"
        return f"at the end (line {self.last_line})"

    def close(self, number: int) -> None:
        """End the innermost sequence: what is still missing, and its qualifiers."""
        frame = self.frames[-1]
        members = frame.table.rule.members
        for place in range(frame.place + 1, len(members)):
            if members[place].occurs_min and place not in frame.present:
                self.missing(frame, members[place], self.before(number))
        for place, seen in sorted(frame.seen.items()):
            self.count(frame, frame.table.counted[place], seen)
        if len(self.frames) > 1:
            self.frames.pop()

    # --- fields ------------------------------------------------------------------------------------

    def look_at(self, frame: _Frame, entry: SequenceEntry, number: int, value: str) -> None:
        assert entry.form is not None
        mistake = entry.form.explain(value)
        if mistake is not None:
            self.report_at(frame, entry.tag, number, value, mistake.offset, mistake.problem)
        if entry.place in frame.table.counted:
            frame.seen.setdefault(entry.place, []).append((value[1:5], number))

    def count(self, frame: _Frame, counted: QualifierCount, seen: list[tuple[str, int]]) -> None:
        names = [name for name, _ in seen]
        if counted.fits("".join(name.ljust(4) for name in names)):
            return
        label = counted.rule.label
        for name in counted.mandatory:
            if name not in names:
                self.found.append(f"{_prefix(frame)}field {label} with qualifier {name} is missing")
        first: dict[str, int] = {}
        leader = ""
        for name, number in seen:
            tag, _, value = self.fields[number].partition(":")
            if name in counted.once and name in first:
                problem = f"qualifier {name} is there again, the first is in line {self.lines[first[name]]}"
                self.report_at(frame, tag, number, value, 1, problem)
            elif name in counted.one_of and leader and name != leader:
                line = self.lines[first[leader]]
                problem = f"qualifier {name} beside {leader} in line {line}: only one of them may be there"
                self.report_at(frame, tag, number, value, 1, problem)
            first.setdefault(name, number)
            if name in counted.one_of and not leader:
                leader = name
        if counted.one_of and not leader:
            known = ", ".join(each.name for each in counted.rule.qualifiers if each.one_of)
            self.found.append(f"{_prefix(frame)}field {label} with one of the qualifiers {known} is missing")

    # --- words -------------------------------------------------------------------------------------

    def missing(self, frame: _Frame, member: FieldRule | SequenceRule, where: str) -> None:
        self.found.append(f"{_prefix(frame)}{_member_label(member)} is missing {where}")

    def report(self, frame: _Frame, number: int, problem: str) -> None:
        where = f"{frame.label}, " if frame.label else ""
        self.found.append(f"{where}line {self.lines[number]}: {problem}")

    def report_at(self, frame: _Frame, tag: str, number: int, value: str, offset: int, problem: str) -> None:
        before = value[:offset]
        line = self.lines[number] + before.count("\n")
        position = offset - before.rfind("\n") if "\n" in before else offset + len(tag) + 3
        where = f"{frame.label}, " if frame.label else ""
        self.found.append(f"{where}field {tag}, line {line}, position {position}: {problem}")


def _prefix(frame: _Frame) -> str:
    return f"{frame.label}: " if frame.label else ""


def _called(entry: SequenceEntry) -> str:
    return f"field {entry.tag}" if entry.table is None else entry.table.rule.label


def _member_label(member: FieldRule | SequenceRule) -> str:
    return f"field {member.label}" if isinstance(member, FieldRule) else member.label


def _tag_of(field: str) -> str:
    tag = field.partition(":")[0]
    return field if tag in ("16R", "16S") else tag[:20]


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
