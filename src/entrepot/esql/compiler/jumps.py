# SPDX-License-Identifier: Apache-2.0
"""LEAVE and ITERATE that Python cannot say itself, because it cannot name loops."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.esql.syntax import Begin, CaseStatement, For, Handler, If, Iterate, Leave, Loop, Repeat, Statement, While


def goes_on(body: Sequence[Statement]) -> bool:
    """Whether a block has a CONTINUE handler."""
    return any(isinstance(statement, Handler) and statement.action == "CONTINUE" for statement in body)


def jumps(body: Sequence[Statement], label: str, inside: int = 0, *, near: bool = False) -> bool:
    """Whether statements jump to a label from inside of another loop, or with `near` from anywhere.

    A block with a CONTINUE handler is a loop to Python.
    """
    inside += goes_on(body)
    return any(_mentions(statement, label, inside, near=near) for statement in body)


def _mentions(statement: Statement, label: str, inside: int, *, near: bool) -> bool:
    if isinstance(statement, Leave | Iterate):
        return statement.label == label and (inside > 0 or near)
    if isinstance(statement, Handler):
        return _mentions(statement.body, label, inside, near=near)
    bodies: list[Sequence[Statement]] = []
    if isinstance(statement, If | CaseStatement):
        bodies = [*(body for _, body in statement.branches), statement.otherwise or ()]
    elif isinstance(statement, Begin | While | Repeat | Loop | For):
        bodies = [statement.body]
        inside += not isinstance(statement, Begin) or bool(statement.label)
    return any(jumps(body, label, inside, near=near) for body in bodies)
