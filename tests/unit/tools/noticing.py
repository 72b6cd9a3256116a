# SPDX-License-Identifier: Apache-2.0
"""For trials of the mutation tool: a test that notices what test_mutants plants, and one that does not."""

from entrepot import limits


def test_nothing_is_planted() -> None:
    assert not hasattr(limits, "PLANTED")


def test_blind() -> None:
    assert limits.MIB
