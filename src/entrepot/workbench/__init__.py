# SPDX-License-Identifier: Apache-2.0
"""The workbench: every measurement that the five documents publish, run again on us and on today's brokers.

Read it in this order: `scenario` (what a document's table asks for),
`systems/` (what can be measured), `generators/` (the processes that make the
load), `loads/` (the shapes of load), `measuring/` (one trial, and what it
leaves as Parquet), `running/` (many trials, resumed when interrupted),
`search/` (the rate that can be sustained), `statistics/` (plain NumPy),
`analysis/` (the same on Spark, over many runs) and `report/`.
"""

DOORS = (
    "analysis",
    "catalogue",
    "loads",
    "measuring.effort",
    "measuring.environment",
    "measuring.glance",
    "measuring.record",
    "quality",
    "report",
    "running.plan",
    "running.repeating",
    "running.run",
    "scenario",
    "systems",
    "systems.installing",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""
