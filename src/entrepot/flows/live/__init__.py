# SPDX-License-Identifier: Apache-2.0
"""Flows at work on queues, in any process; no Spark here.

deployment      what is to run, where and against what: all that a task is told
instance        get, run the kernel, put and commit, again and again
live_world    the world beyond the flow: a queue manager and databases in one unit of work
flow_databases  a flow's data sources
steady_clock    a time that goes on evenly, for all instances of a machine
"""
