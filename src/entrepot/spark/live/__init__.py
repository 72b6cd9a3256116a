# SPDX-License-Identifier: Apache-2.0
"""Flows at work: a Spark job for each execution group, a long-running task for each instance.

live_flow       a flow's jobs, and the task that runs an instance

`flows.live` has the instance, and what starts, watches and stops a flow.
"""
