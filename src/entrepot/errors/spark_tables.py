# SPDX-License-Identifier: Apache-2.0
"""Queues as Spark tables, flows over tables, and replays."""

from __future__ import annotations

from entrepot.errors.spark import SparkError


class FlowNotStreamable(SparkError):
    flow: str
    node: str
    type: str
    problem: str
    code = "J20"
    text = "the flow {flow} cannot run over a table: {node} is {type}, {problem}"
    hint = "Run it live with entrepot flow run, or leave that node out."


class LedgerBusy(SparkError):
    writer: str
    batch: int
    code = "J21"
    retryable = True
    text = "another driver writes batch {batch} of {writer} just now"
    hint = "Let only one query run from a checkpoint; this batch was not decided."


class LedgerUnreadable(SparkError):
    queue: str
    problem: str
    code = "J22"
    text = "a message on {queue} is no record of a batch: {problem}"
    hint = "It was put there by hand. Take it off; nothing was written."


class ArchiveUnreadable(SparkError):
    path: str
    problem: str
    code = "J23"
    text = "{path} is no archive of messages: {problem}"
    hint = "An archive is Parquet with a column body, or a folder of files, each the body of a message."
