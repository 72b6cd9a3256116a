# SPDX-License-Identifier: Apache-2.0
"""Everything that is wrong with a flow, told at once, before it runs.

node_checks    types and properties, by what the types declare, and models
link_checks    links and terminals, labels, what cannot be reached, circles
esql_checks    the flow's programs, and the modules that nodes ask for

A mistake keeps a flow from running; a warning is told and lets it pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from entrepot.errors import FlowInvalid
from entrepot.flows.checking.esql_checks import esql_mistakes
from entrepot.flows.checking.link_checks import link_mistakes
from entrepot.flows.checking.node_checks import node_mistakes
from entrepot.flows.declarations import type_of
from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition
from entrepot.flows.nodes.node import FlowMistake
from entrepot.flows.subflows import expand_with_mistakes

__all__ = ["find_mistakes", "in_order", "require_valid"]


def find_mistakes(flow: FlowDefinition, *, is_complete: bool = True) -> list[FlowMistake]:
    """Mistakes and warnings of a flow with all its subflows, those of one subflow once however often it is used.

    Of a flow that is not complete, because a file of it could not be read, nothing is said to be missing.
    """
    flat, found = expand_with_mistakes(flow)
    if not is_complete:
        found = [mistake for mistake in found if "there is no subflow" not in mistake.problem]
    is_whole = is_complete and not found and all(_is_known(node.type) for node in flat.nodes.values())
    found += node_mistakes(flat, is_complete=is_complete)
    found += link_mistakes(flat, is_complete=is_whole)
    found += esql_mistakes(flat, is_complete=is_complete)
    found += _unused_subflows(flow)
    return in_order(found)


_PLACE = re.compile(r"(.*?):(\d+)(?::(\d+))?", re.DOTALL)


def in_order(mistakes: Iterable[FlowMistake]) -> list[FlowMistake]:
    """Each once, in the order of their places; what has none comes last, as it was found."""
    return sorted(dict.fromkeys(mistakes), key=_order)


def _order(mistake: FlowMistake) -> tuple[bool, str, int, int]:
    place = _PLACE.fullmatch(mistake.where)
    return (True, "", 0, 0) if place is None else (False, place[1], int(place[2]), int(place[3] or 0))


def require_valid(flow: FlowDefinition) -> None:
    """
    Raises:
        FlowInvalid: All mistakes.
    """
    found = [mistake for mistake in find_mistakes(flow) if not mistake.is_warning]
    if flow.is_subflow:
        problem = "this is a subflow, and only a flow can run"
        found.insert(0, FlowMistake(str(flow.place), problem, "Put it into a flow as a node of the type Subflow."))
    if found:
        raise FlowInvalid(flow.name, tuple((error.where, error.problem, error.advice) for error in found))


def _is_known(type_name: str) -> bool:
    return type_name in (INPUT, OUTPUT) or type_of(type_name) is not None


def _unused_subflows(flow: FlowDefinition) -> Iterable[FlowMistake]:
    asked: set[str] = set()
    seen: set[int] = set()
    waiting = [flow]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            waiting += each.subflows.values()
            asked |= {str(node.properties.get("flow")) for node in each.nodes.values() if node.type == SUBFLOW}
    for name in flow.subflows:
        if name not in asked:
            place = flow.places.get(f"subflows.{name}", flow.place)
            yield FlowMistake(str(place), f"no node is the subflow {name}", severity="warning")
