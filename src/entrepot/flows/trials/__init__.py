# SPDX-License-Identifier: Apache-2.0
"""Flows on trial: feed a message, look at everything that comes of it, say what should have.

flow_test     FlowTest: a flow with stubs, databases and a clock of its own
recording     a kernel that remembers which way a message took
result        what one message has brought about, and assertions about it
differences   XML, JSON, trees and bytes compared, with the path to each difference
cases         test files: what is fed, and what is expected
verdicts      these files run, case by case

`entrepot.testing.flows` is the door for users; `entrepot flow test` runs files.
"""

from __future__ import annotations

from entrepot.flows.trials.flow_test import FlowTest
from entrepot.flows.trials.recording import Visit
from entrepot.flows.trials.result import FlowResult

__all__ = ["FlowResult", "FlowTest", "Visit"]
