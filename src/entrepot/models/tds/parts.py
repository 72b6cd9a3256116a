# SPDX-License-Identifier: Apache-2.0
"""What a member and a structure become when they are compiled.

A part reads one occurrence of a member from the text into a list of elements,
and writes one occurrence from such a list into pieces of text. A body does the
same for all members of a structure. What begins them is known beforehand (tags,
group indicator, fixed values, element names), so that nothing is tried that
cannot succeed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from entrepot.models.logical import Separation, TdsFormat, TdsStructure
from entrepot.models.tds.trouble import Reading
from entrepot.models.tree import Element

Read = Callable[[str, int, int, list[Element], Reading], int]
"""(text, position, end, elements, reading): appends elements, gives the position behind them."""

Writing = dict[str, object]
"""Values of the elements that others refer to, while a message is written."""

Write = Callable[[list[Element], int, list[str], Writing], int]
"""(elements, index, pieces, writing): appends pieces, gives the index behind the elements it took."""

Recognise = Callable[[str, int, int], bool]
"""(text, position, end): whether it begins there."""

Peek = Callable[[str, int, int], str]
"""(text, position, end): the data there, to be compared with fixed values."""

Search = Callable[[str, int, int], re.Match[str] | None]
"""(text, position, end): the next mark."""

UNBOUNDED = sys.maxsize

DELIMITED = frozenset({Separation.TAGGED_DELIMITED, Separation.ALL_DELIMITED, Separation.VARIABLE_DELIMITED})
TAGGED = frozenset({Separation.TAGGED_DELIMITED, Separation.TAGGED_FIXED_LENGTH, Separation.TAGGED_ENCODED_LENGTH})


@dataclass(frozen=True, slots=True)
class StructureSettings:
    """What a structure says about itself, with the format's defaults filled in."""

    separation: Separation
    delimiter: str
    indicator: str
    terminator: str
    separator: str
    tag_length: int
    encoded_length: int
    encoded_extra: int
    suppress: bool
    observe_length: bool

    @property
    def tagging(self) -> tuple[str, int]:
        return self.separator, self.tag_length


def settle(physical: TdsStructure, tds: TdsFormat) -> StructureSettings:
    """
    Raises:
        ValueError: It says two things that exclude each other.
    """
    separation = physical.separation
    separator, length = physical.tag_separator, physical.tag_length
    if separation in TAGGED:
        if separator is None and length is None:
            separator, length = tds.tag_separator, tds.tag_length
        if separator and length:
            raise ValueError("its tags end by a separator or by their length, not by both")
        if not separator and not length:
            raise ValueError("its tags need a separator or a length")
        if separation is Separation.TAGGED_ENCODED_LENGTH and physical.encoded_length < 1:
            raise ValueError("its elements have a length in front, but nothing says how many characters that has")
    delimiter = tds.delimiter if physical.delimiter is None else physical.delimiter
    if separation not in DELIMITED:
        delimiter = ""
    elif not delimiter and separation is not Separation.TAGGED_DELIMITED:
        raise ValueError(f"it has {separation.value}, but no delimiter")
    return StructureSettings(
        separation,
        delimiter,
        tds.group_indicator if physical.group_indicator is None else physical.group_indicator,
        tds.group_terminator if physical.group_terminator is None else physical.group_terminator,
        separator or "",
        length or 0,
        physical.encoded_length,
        physical.encoded_extra,
        physical.suppress_absent == "end",
        physical.observe_length,
    )


@dataclass(frozen=True, slots=True)
class StructureContext:
    """What stands around a structure while it is compiled."""

    marks: frozenset[str] = frozenset()
    """Marks of the structures around it at which its data end."""
    bounded: bool = True
    """Its end is known: that of the message, a mark, a length."""
    follow_tags: frozenset[str] = frozenset()
    """Tags that may stand behind it, and belong to another element then."""
    follow_names: frozenset[str] = frozenset()
    """The same for names of elements, when it is a group that the tree does not show."""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class FirstTag:
    """A tag that something may begin with, and which data behind it make it that."""

    tag: str
    values: frozenset[str] | None = None
    matches: Callable[[str], object] | None = None
    peek: Peek | None = None
    hard: bool = False
    """It is nothing at all with other data, even where no other member has its tag."""
    search: Search | None = None
    """Finds the end of the data, where nothing but marks can tell it."""


@dataclass(frozen=True, slots=True)
class FirstName:
    """An element that something may begin with, when a tree is written."""

    key: str
    values: frozenset[str] | None = None


@dataclass(slots=True)
class Body:
    """A structure, compiled."""

    read: Read
    write: Write
    nullable: bool
    """It may be there without any element."""
    sized: bool
    """Its end can be found without a delimiter behind it."""
    names: list[FirstName]
    tags: list[FirstTag] | None = None
    """Tags it begins with, if it begins with a tag."""
    tagging: tuple[str, int] = ("", 0)
    recognise: Recognise | None = None
    indicator: str = ""
    options: dict[str, Part] | None = None
    """Its alternatives by their tags, when it is nothing but a choice between tagged elements that occur once."""


@dataclass(slots=True)
class Part:
    """A member, compiled."""

    key: str
    least: int
    most: int
    read: Read
    """One occurrence."""
    write: Write
    """One occurrence; the elements have one."""
    nullable: bool
    sized: bool
    names: list[FirstName]
    tag: str = ""
    body: Body | None = None
    recognise: Recognise | None = None
    values: frozenset[str] | None = None
    matches: Callable[[str], object] | None = None
    peek: Peek | None = None
    search: Search | None = None
    verbatim: bool = False
    """Its value is the very text up to the mark that `search` finds."""
    fill: Callable[[list[str], Writing], None] | None = None
    """Writes what is written when the tree has no such element: its default, or padding."""
    count_from: str = ""
    repeat: str = ""
    """Delimiter between its occurrences."""
    pattern: bool = False
    shared: bool = False
    """It is delimited as the structure around it is, so that its delimiters must stand even when it is absent."""
    line: int = 0
    keys: frozenset[str] = field(default_factory=frozenset)
    """Keys of the elements that begin it."""
