# SPDX-License-Identifier: Apache-2.0
"""Statistics in plain NumPy: warm-up, intervals, trends, counting, when to stop repeating.

The Spark jobs call these for each trial.
"""
