# SPDX-License-Identifier: Apache-2.0
"""Spark jobs over the raw observations of any number of runs: statistics, verdicts, comparisons, capacity.

`find` runs them and brings home what a report shows. Read it in this order:
`reading` (files → tables), `trial_results` (the one pass over everything, trial by trial), what that pass
asks of a trial (`observed`, `metric`, `metrics`, `accounts`, `series`, `saturation`,
`bottlenecks`), `comparing` (over repetitions and systems), `capacity` (what
a rate would need) and `finding`. With `spark/`, the only room that imports
pyspark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from entrepot.workbench.analysis.findings import Findings

__all__ = ["find"]


def find(spark: SparkSession, runs: Sequence[Path], *, apart: bool = False) -> Findings:
    """Everything that can be said about these runs.

    Raises:
        RunNotFound: A folder is no run, or a file in it cannot be read.
        HostsDiffer: They were made on different machines, and `apart` was not asked for.
    """
    from entrepot.workbench.analysis.finding import find_all

    return find_all(spark, runs, apart=apart)
