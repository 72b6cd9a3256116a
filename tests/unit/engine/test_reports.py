# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.engine.definitions import LocalQueue, Process
from entrepot.engine.reports import depth_event, reply_route, report_on, trigger_message, undeliverable
from entrepot.message import Message, MessageType, Report

MESSAGE = Message(
    b"body",
    message_id=b"m",
    correlation_id=b"c",
    persistent=True,
    priority=4,
    expiry_s=5.0,
    reply_to="R",
    format="MQSTR",
    properties={"own": 1},
)


@pytest.mark.parametrize(
    ("options", "message_id", "correlation_id", "body"),
    [
        (0, b"", b"m", b""),
        (Report.WITH_DATA, b"", b"m", b"body"),
        (Report.PASS_MESSAGE_ID, b"m", b"m", b""),
        (Report.PASS_CORRELATION_ID, b"", b"c", b""),
    ],
)
def test_report_identifies_its_message(options: int, message_id: bytes, correlation_id: bytes, body: bytes) -> None:
    report = report_on(Message(b"body", message_id=b"m", correlation_id=b"c", report=options), 259)
    assert (report.message_id, report.correlation_id, report.body) == (message_id, correlation_id, body)
    assert (report.type, report.feedback, report.report) == (MessageType.REPORT, 259, 0)


def test_reply_route_names_the_manager_if_there_is_one() -> None:
    assert reply_route(Message(b"", reply_to="R")) == "R"
    assert reply_route(Message(b"", reply_to="R", reply_to_manager="QM2")) == "R@QM2"


def test_trigger_message_does_without_a_process() -> None:
    queue = LocalQueue(name="Q", process="P", trigger_data="data")
    assert trigger_message(queue, None).properties["application_id"] == ""
    process = Process(name="P", application_id="run")
    assert trigger_message(queue, process).properties["application_id"] == "run"


def test_depth_event_tells_depth_and_limit() -> None:
    event = depth_event(LocalQueue(name="Q", depth_max=10), "DEPTH_HIGH", 8)
    assert event.properties == {"event": "DEPTH_HIGH", "queue": "Q", "depth": 8, "depth_max": 10}


def test_undeliverable_message_keeps_everything_and_says_why() -> None:
    dead = undeliverable(MESSAGE, "Q", 2085, "there is no queue Q", 1.5)
    assert (dead.body, dead.message_id, dead.persistent, dead.priority) == (b"body", b"m", True, 4)
    assert dead.expiry_s is None
    assert dead.properties == {
        "own": 1,
        "dead_letter_queue": "Q",
        "dead_letter_reason": 2085,
        "dead_letter_problem": "there is no queue Q",
        "dead_letter_time": 1.5,
    }
    assert MESSAGE.properties == {"own": 1}
