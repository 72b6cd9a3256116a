# SPDX-License-Identifier: Apache-2.0
"""Flows at work on queues, in any process; no Spark here.

supervision     start, watch, stop, redeploy, whoever runs the instances
local_processes instances in processes of this machine; instance_process is their program
readiness       what a flow needs before it can run
deployment      what is to run, where and against what: all that an instance is told
instance        get, run the kernel, put and commit, again and again
worker_process  the process of an instance: ends when a message keeps it too long, and when its parent is gone
live_world      the world beyond the flow: a queue manager and databases in one unit of work
flow_databases  a flow's data sources
steady_clock    a time that goes on evenly, for all instances of a machine
"""
