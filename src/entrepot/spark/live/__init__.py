# SPDX-License-Identifier: Apache-2.0
"""Flows at work: a Spark job for each execution group, a long-running task for each instance.

deployment      what is to run, where and against what: all that a task is told
instance        get, run the kernel, put and commit, again and again; no Spark in it
flow_outside    the world beyond the flow: a queue manager and databases in one unit of work
flow_databases  a flow's data sources
live_flow       start, watch, stop, redeploy: the side of the driver
"""
