# SPDX-License-Identifier: Apache-2.0
"""Message selectors: one engine for queues, topics and every protocol.

    compile_selector("region = 'EU' AND amount > 100").matches(message)

The way of a selector: selector.lark is the grammar, syntax.py makes
expressions.py out of the text with the help of type_checks.py, mistakes.py
says what was wrong with it, and evaluation.py turns the expressions into
functions with comparison.py, arithmetic.py, three_valued.py and like.py.
cost.py says what it costs to ask them. identifiers.py knows what names stand for.
"""

from __future__ import annotations

from entrepot.selectors.selector import NotCompiledYet, Selector, compile_selector, ready_selector

DOORS = ("like",)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""

__all__ = ["NotCompiledYet", "Selector", "compile_selector", "ready_selector"]
