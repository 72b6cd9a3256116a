# SPDX-License-Identifier: Apache-2.0
"""Unit tests of flows: feed a message, stub a node, let time pass, assert what comes out.

    from entrepot.testing.flows import FlowTest

    def test_an_order_is_priced() -> None:
        trial = FlowTest("pricing.yaml")
        result = trial.feed("ORDERS", "<order><pieces>3</pieces></order>")
        result.assert_output("DONE", xml="<order><pieces>3</pieces><total>7.50</total></order>")

The same without Python is a file `pricing.test.yaml` for `entrepot flow test`.
"""

from __future__ import annotations

from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.trials import FlowResult, FlowTest, Visit

__all__ = ["FlowResult", "FlowTest", "QueueFacts", "Visit"]
