# SPDX-License-Identifier: Apache-2.0
"""Places in a message that a node's property names: a path without any program around it.

Both of IBM's notations are read, `InputLocalEnvironment.TimeoutRequest` and
`$LocalEnvironment/Aggregation/Timeout`. A step is a name, in quotes where it
has other signs, and may have an index: `Order.Item[2]`. Namespaces are not
looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from entrepot.models.tree import Assembly, Element

_STEP = re.compile(r"""(?:(?P<name>[^\s./"\[\]]+)|"(?P<quoted>[^"]+)")(?:\[(?P<index>[1-9][0-9]*)\])?""")
_TREES = ("LocalEnvironment", "Environment", "ExceptionList", "Root", "Body")


@dataclass(frozen=True, slots=True)
class Location:
    """A path, read."""

    tree: str
    steps: tuple[tuple[str, int], ...]
    """Names, and which child of that name, from 0."""
    text: str

    def find(self, assembly: Assembly) -> Element | None:
        """The element there; None when there is none."""
        element = self._start(assembly)
        for name, index in self.steps:
            if element is None:
                return None
            named = element.all(name) or [child for child in element.children if child.name == name]
            element = named[index] if index < len(named) else None
        return element

    def _start(self, assembly: Assembly) -> Element | None:
        if self.tree == "LocalEnvironment":
            return assembly.local_environment
        if self.tree == "Environment":
            return assembly.environment
        if self.tree == "ExceptionList":
            return assembly.exception_list
        if self.tree == "Body":
            children = assembly.root.children
            return children[-1] if children else None
        return assembly.root


def read_location(text: str) -> Location:
    """
    Raises:
        ValueError: It is no path; says what a path is.
    """
    rest = text.strip().removeprefix("$")
    for prefix in ("Input", "Output"):
        if rest.startswith(tuple(prefix + tree for tree in _TREES)):
            rest = rest.removeprefix(prefix)
    steps: list[tuple[str, int]] = []
    while rest:
        step = _STEP.match(rest)
        if step is None or (step.end() < len(rest) and rest[step.end()] not in "./"):
            raise ValueError(f"{text!r} is no path; write one like InputLocalEnvironment.TimeoutRequest")
        steps.append((step["name"] or step["quoted"], int(step["index"] or 1) - 1))
        rest = rest[step.end() + 1 :]
    if not steps or steps[0][0] not in _TREES:
        raise ValueError(f"{text!r} does not begin with one of {', '.join(_TREES)}")
    return Location(steps[0][0], tuple(steps[1:]), text)
