# SPDX-License-Identifier: Apache-2.0
"""Flows at work: a Spark job for each execution group, a long-running task for each instance.

live_flow       start, watch, stop, redeploy: the side of the driver
worker_process  the process of a task: ends when a message keeps it too long, and when Spark is gone

`flows.live` has the instance that a task runs.
"""
