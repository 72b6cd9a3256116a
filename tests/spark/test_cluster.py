# SPDX-License-Identifier: Apache-2.0
"""A session on a real cluster needs a process of its own, since this one may have a session already.

test_driver_and_executors.py has a flow on two executors in every run of the tests; this is the session alone.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from entrepot.testing.spark_cluster import SparkCluster

PROGRAM = """
import json, os, sys, time
from entrepot.spark import close_session, open_context

def executor(index, _):
    time.sleep(1)  # so long that no executor takes both
    return [(index, os.getppid(), os.getpid())]

context = open_context(sys.argv[1], app="tests", settings=json.loads(sys.argv[2]), light=True)
print(json.dumps(context.parallelize(range(2), 2).mapPartitionsWithIndex(executor).collect()))
close_session(context)
"""


@pytest.mark.torture
def test_job_runs_on_two_executors_of_a_cluster(cluster: SparkCluster) -> None:
    arguments = [cluster.url, json.dumps({**cluster.settings, "spark.scheduler.minRegisteredResourcesRatio": "1"})]
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    tasks = json.loads(finished.stdout)
    pids = [worker.pid for worker in cluster.workers]
    assert [index for index, _, _ in tasks] == [0, 1]
    assert len({daemon for _, daemon, _ in tasks}) == 2, "an executor has a daemon of its own"
    assert len({pid for _, _, pid in tasks}) == 2
    assert len(set(pids)) == 2
