# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: notes what each test reaches, or runs the tests near a mutant, nearest first."""

import json
import os
import time
from pathlib import Path

import mutant_marks
import pytest


def pytest_configure(config):
    if mutant_marks.marks is not None and config.getoption("numprocesses", None):
        # xdist starts the processes that run tests from this one: each has marks of its own.
        os.environ.pop("MUTANT_MARKS_FILE", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    marks = mutant_marks.marks
    if marks is None:
        return (yield)
    marks[:] = bytes(len(marks))
    failed = item.session.testsfailed
    began = time.perf_counter()
    result = yield
    seconds = round(time.perf_counter() - began, 3)
    reached = [number for number, mark in enumerate(marks[:]) if mark]
    with (Path(os.environ["MUTANT_MARKS"]) / f"reached-{os.getpid()}.jsonl").open("a") as file:
        row = {"test": item.nodeid, "seconds": seconds, "reached": reached}
        file.write(json.dumps({**row, "failed": item.session.testsfailed > failed}) + "\n")
    return result


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    path = os.environ.get("MUTANT_TESTS")
    if path is None:
        return
    asked = json.loads(Path(path).read_text())
    places = {test: place for place, test in enumerate(asked["near"])}
    far = set(asked["far"])
    # A test that nobody has seen yet may have been written for this very mutant: it comes first.
    chosen = [item for item in items if item.nodeid not in far]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in far])
    items[:] = sorted(chosen, key=lambda item: places.get(item.nodeid, -1))
