# SPDX-License-Identifier: Apache-2.0
"""Where messages rest.

Reading order: entry, lane, queue, unit_of_work, queue_manager (the
deterministic engine), restart, checkpointing, and last host, which runs
the engine for the threads of a process.
"""
