# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc

from entrepot.models.collecting import OBJECTS_BETWEEN, collect_seldom


def test_collector_runs_after_as_many_objects_as_it_says() -> None:
    before = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_threshold() == (OBJECTS_BETWEEN, *before[1:])
    finally:
        gc.set_threshold(*before)
