# SPDX-License-Identifier: Apache-2.0
"""What cannot be compiled."""

from __future__ import annotations

from entrepot.esql.syntax import SyntaxNode


class Unsupported(Exception):
    """A construct that cannot be compiled, and where; the project turns it into an EsqlInvalid."""

    def __init__(self, node: SyntaxNode, problem: str) -> None:
        super().__init__(problem)
        self.place = node.place
        self.problem = problem
