# SPDX-License-Identifier: Apache-2.0
"""Spark jobs over the raw observations of any number of runs: statistics, verdicts, comparisons, capacity.

Each job is a function from DataFrames to a DataFrame; `find` runs them all
and brings home what a report shows. With `spark/`, the only room that
imports pyspark.
"""
