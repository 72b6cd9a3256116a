# SPDX-License-Identifier: Apache-2.0
"""Everything that is wrong with a flow, told at once, before it runs."""

from __future__ import annotations

from entrepot.flows.definition import FlowDefinition


def require_valid(flow: FlowDefinition) -> None:
    """
    Raises:
        FlowInvalid: All mistakes.
    """
