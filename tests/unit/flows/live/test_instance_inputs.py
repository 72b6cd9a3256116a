# SPDX-License-Identifier: Apache-2.0
"""Instances whose messages come from files, from HTTP clients, and from states that nodes keep: with two of them at
work, with one that is killed, and with requests that fail."""

from __future__ import annotations

import http.client
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.http_listener import HttpSource
from entrepot.flows.live.deployment import Deployment
from entrepot.message import Message

from .staged import Running, Stage, compute, drawn, node, reads, until, writes

pytestmark = pytest.mark.usefixtures("quick")

RECORDS = 200
_WORK = "DECLARE i INTEGER 0; WHILE i < 3000 DO SET i = i + 1; END WHILE;"


# --- files ------------------------------------------------------------------------------------------------------


def test_records_of_a_file_come_once_though_the_instance_is_killed_in_the_middle(stage: Stage, tmp_path: Path) -> None:
    # On a busy machine the kill may come too late, but not each time.
    assert any(_come_once_though_it_is_killed(stage, tmp_path / str(number)) for number in range(5)), "in the middle"


def _come_once_though_it_is_killed(stage: Stage, folder: Path) -> bool:
    """Whether it was killed before it had done all."""
    folder.mkdir()
    target = stage.queue()
    flow = drawn(
        "In -> Work -> Out",
        In=node("FileInput", directory=str(folder), pattern="*.csv", records="delimited", polling_s=0.05),
        Work=compute(_WORK),
        Out=writes(target),
    )
    expected = [f"record {number}" for number in range(RECORDS)]
    (folder / "orders.csv").write_text("".join(f"{line}\n" for line in expected))
    killed = folder / "killed.pickle"
    killed.write_bytes(pickle.dumps(Deployment(flow, stage.url, batch_max=3, run=1)))
    with subprocess.Popen([sys.executable, "-c", RUN, str(killed)]) as process:
        until(lambda: stage.depth(target) > 20, lambda: "it works")
        process.kill()
    if stage.depth(target) == RECORDS:
        return False
    with stage.running(flow) as running:
        running.until(lambda: stage.depth(target) == RECORDS, "the next one reads on")
        running.until(lambda: not any(folder.glob("**/*.csv")), "and takes the file away")
        assert running.count("messages") < RECORDS
    assert stage.bodies(target) == expected
    return True


RUN = """
import pickle, sys
from pathlib import Path
from entrepot.flows.live.instance import run_instance
run_instance(pickle.loads(Path(sys.argv[1]).read_bytes()), 0, 0)
"""


def test_a_bad_record_is_set_aside_and_a_folder_that_goes_away_is_waited_for(stage: Stage, tmp_path: Path) -> None:
    target, failed = stage.queue(), stage.queue()
    folder = tmp_path / "in"
    folder.mkdir()
    flow = drawn(
        "In -> Work -> Out",
        "In.failure -> Failed",
        In=node("FileInput", directory=str(folder), records="delimited", domain="XMLNSC", polling_s=0.02),
        Work=compute("SET OutputRoot.XMLNSC.r = InputRoot.XMLNSC.r;"),
        Out=writes(target),
        Failed=writes(failed),
    )
    (folder / "a").write_text("<r>1</r>\n<r>\n<r>2</r>\n")
    with stage.running(flow) as running:
        running.until(lambda: stage.depth(target) == 2 and stage.depth(failed) == 1, "all are dealt with")
        running.until(lambda: not list((folder / "mqsitransitin").iterdir()), "the file is gone")
        (folder / "mqsitransitin").rmdir()
        folder.rmdir()
        running.until(lambda: str(folder) in running.problem, "it tells")
        (folder / "mqsitransitin").mkdir(parents=True)
        (folder / "b").write_text("<r>3</r>\n")
        running.until(lambda: stage.depth(target) == 3, "it goes on")
        running.until(lambda: not running.problem, "and says so")
    assert stage.bodies(target) == ["<r>1</r>", "<r>2</r>", "<r>3</r>"]
    assert stage.bodies(failed) == ["<r>"]


# --- HTTP -------------------------------------------------------------------------------------------------------


def _asked(running: Running, body: str) -> tuple[int, str]:
    source = next(each._source for each in running.instances[0]._inputs if isinstance(each._source, HttpSource))
    connection = http.client.HTTPConnection("127.0.0.1", source.port, timeout=60)
    try:
        connection.request("POST", "/orders", body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _service(target: str) -> FlowDefinition:
    return drawn(
        "In -> Order",
        "Order.first -> Out",
        "Order.second -> Work -> Reply",
        In=node("HTTPInput", path="/orders", port=0, domain="XMLNSC"),
        Order=node("FlowOrder"),
        Out=writes(target),
        Work=compute("SET OutputRoot.XMLNSC.n = CAST(InputRoot.XMLNSC.n AS INTEGER) + 1;"),
        Reply=node("HTTPReply"),
    )


def test_a_client_is_answered_after_the_commit_and_told_500_when_its_request_fails(stage: Stage) -> None:
    target = stage.queue()
    with stage.running(_service(target)) as running, ThreadPoolExecutor(6) as clients:
        running.until(lambda: running.instances[0]._inputs, "it listens")
        answers = list(clients.map(lambda n: _asked(running, f"<n>{n}</n>"), [1, 2, "three", 4, 5, "six"]))
        assert [status for status, _ in answers] == [200, 200, 500, 200, 200, 500]
        assert [body for _, body in answers if "<n>" in body] == [f"<n>{n}</n>" for n in (2, 3, 5, 6)]
        assert "CastFailed [X03]" in answers[2][1]
        assert "three" not in answers[2][1], "what went wrong inside is nobody's business outside"
    # What a request brings about is there when its client has the answer, and a failed one brings about nothing.
    assert sorted(stage.bodies(target)) == [f"<n>{n}</n>" for n in (1, 2, 4, 5)]


def test_a_request_whose_output_is_refused_fails_alone(stage: Stage) -> None:
    target = stage.queue("MAXDEPTH(1)")
    with stage.running(_service(target)) as running:
        running.until(lambda: running.instances[0]._inputs, "it listens")
        assert _asked(running, "<n>1</n>") == (200, "<n>2</n>")
        assert _asked(running, "<n>2</n>")[0] == 500
        stage.connection.get(target)
        assert _asked(running, "<n>3</n>") == (200, "<n>4</n>")
    assert stage.bodies(target) == ["<n>3</n>"]


# --- states -----------------------------------------------------------------------------------------------------


class Trip:
    """One message becomes a request for each folder, and the replies one message again."""

    def __init__(self, stage: Stage, name: str, *, timeout_s: float = 60.0) -> None:
        self.source, self.asked, self.replies = stage.queue(), stage.queue(), stage.queue()
        self.out, self.timeout, self.unknown = stage.queue(), stage.queue(), stage.queue()
        requests = {f"Put{n}": writes(self.asked, new_message_id=True) for n in (1, 2, 3)}
        folders = {f"Request{n}": node("AggregateRequest", folder=f"F{n}") for n in (1, 2, 3)}
        sends = "".join(
            f"SET OutputRoot.XMLNSC.trip.part = '{n}'; PROPAGATE TO TERMINAL 'out{n}' DELETE NONE;" for n in (1, 2, 3)
        )
        self.fan_out = drawn(
            "In -> Control -> Split",
            *(f"Split.out{n} -> Put{n} -> Request{n}" for n in (1, 2, 3)),
            In=reads(self.source),
            Control=node("AggregateControl", aggregate_name=name, timeout_s=timeout_s),
            Split=compute(f"{sends} RETURN FALSE;"),
            **requests,
            **folders,
        )
        self.answer = drawn(
            "In -> Reply",
            In=reads(self.asked),
            Reply=node("MQReply"),
        )
        shows = {f"Show{n}": node("Compute", statements=SHOW) for n in ("out", "timeout")}
        self.fan_in = drawn(
            "In -> Reply",
            "Reply.out -> Showout -> Out",
            "Reply.timeout -> Showtimeout -> Timeout",
            "Reply.unknown -> Unknown",
            In=reads(self.replies),
            Reply=node("AggregateReply", aggregate_name=name),
            Out=writes(self.out),
            Timeout=writes(self.timeout),
            Unknown=writes(self.unknown),
            **shows,
        )


SHOW = """
    CREATE FIELD OutputRoot.XMLNSC.seen;
    FOR folder AS InputRoot.ComIbmAggregateReplyBody.*[] DO
        CREATE LASTCHILD OF OutputRoot.XMLNSC.seen NAME FIELDNAME(folder) VALUE folder.XMLNSC.trip.n;
    END FOR;
    RETURN TRUE;
"""


def test_aggregates_of_two_instances_are_whole_and_a_stranger_is_unknown(stage: Stage) -> None:
    trip = Trip(stage, "WHOLE")
    stage.put(trip.source, *(f"<trip><n>{n}</n></trip>" for n in range(20)), reply_to=trip.replies)
    with (
        stage.running(trip.fan_in, count=2, batch_max=4) as running,
        stage.running(trip.answer, count=2, batch_max=3),
        stage.running(trip.fan_out, count=2, batch_max=2),
    ):
        stage.put(trip.replies, "<trip><n>x</n></trip>", correlation_id=b"nobody asked this".ljust(24))
        running.until(lambda: stage.depth(trip.out) == 20, "all aggregates are whole")
        running.until(lambda: stage.depth(trip.unknown) == 1, "the stranger is told apart")
    assert sorted(stage.bodies(trip.out)) == sorted(
        f"<seen><F1>{n}</F1><F2>{n}</F2><F3>{n}</F3></seen>" for n in range(20)
    )
    assert stage.bodies(trip.timeout) == []


def test_an_aggregate_whose_time_is_over_leaves_with_what_it_has(stage: Stage) -> None:
    # Only where a reply was measured to have come in time it is asked whether it counts.
    assert any(_leaves_with_what_it_has(stage, timeout_s) for timeout_s in (0.6, 3.0, 15.0))


def _leaves_with_what_it_has(stage: Stage, timeout_s: float) -> bool:
    """Whether the machine was quick enough for one reply."""
    begun = time.monotonic()
    trip = Trip(stage, f"LATE{timeout_s:.0f}", timeout_s=timeout_s)
    stage.put(trip.source, "<trip><n>7</n></trip>", reply_to=trip.replies)
    with stage.running(trip.fan_out), stage.running(trip.fan_in, count=2) as running:
        running.until(lambda: stage.depth(trip.asked) == 3, "the requests are sent")
        request = stage.connection.get(trip.asked)
        assert request is not None
        stage.put(trip.replies, "<trip><n>only</n></trip>", correlation_id=request.message_id)
        running.until(lambda: stage.drained(trip.replies), "the reply is taken")
        in_time = time.monotonic() - begun < timeout_s
        running.until(lambda: stage.depth(trip.timeout) == 1, "its time is over")
        stage.put(trip.replies, "<trip><n>late</n></trip>", correlation_id=_id(stage.messages(trip.asked)))
        running.until(lambda: stage.depth(trip.unknown) >= 1, "who comes too late is unknown")
    assert stage.bodies(trip.out) == []
    assert not in_time or stage.bodies(trip.timeout) == ["<seen><F1>only</F1></seen>"]
    return in_time


def _id(messages: list[Message]) -> bytes:
    return messages[0].message_id


def test_collections_of_two_instances_are_whole_or_expire(stage: Stage) -> None:
    # Only where both halves were measured to have come in time it is asked whether they met.
    assert any(_are_whole_or_expire(stage, expiry_s) for expiry_s in (1.5, 6.0, 30.0))


def _are_whole_or_expire(stage: Stage, expiry_s: float) -> bool:
    left, right, out, expired = stage.queue(), stage.queue(), stage.queue(), stage.queue()
    by_key = {"correlation_path": "InputRoot.XMLNSC.m.k"}
    flow = drawn(
        "Collect.out -> Show -> Out",
        "Collect.expire -> Showless -> Expired",
        Left=reads(left),
        Right=reads(right),
        Collect=node(
            "Collector",
            handlers=[{"terminal": "left", **by_key}, {"terminal": "right", **by_key}],
            collection_expiry_s=expiry_s,
        ),
        Show=node("Compute", statements=GATHERED),
        Showless=node("Compute", statements=GATHERED),
        Out=writes(out),
        Expired=writes(expired),
    )
    flow.link("Left", "Collect", input="left")
    flow.link("Right", "Collect", input="right")
    stage.put(left, *(f"<m><k>{n}</k></m>" for n in range(12)))
    stage.put(right, *(f"<m><k>{n}</k></m>" for n in range(11)))
    begun = time.monotonic()
    with stage.running(flow, count=2, batch_max=2) as running:
        running.until(lambda: stage.drained(left, right), "all are taken")
        in_time = time.monotonic() - begun < expiry_s
        running.until(lambda: stage.depth(out) + stage.depth(expired) >= 12, "all are whole or have expired")
    whole = sorted(f"<seen><left>{n}</left><right>{n}</right></seen>" for n in range(11))
    assert not in_time or (sorted(stage.bodies(out)), stage.bodies(expired)) == (
        whole,
        ["<seen><left>11</left></seen>"],
    )
    return in_time


GATHERED = """
    CREATE FIELD OutputRoot.XMLNSC.seen;
    DECLARE terminal CHARACTER;
    FOR item AS InputRoot.Collection.left[] DO
        SET OutputRoot.XMLNSC.seen.left = item.XMLNSC.m.k;
    END FOR;
    FOR item AS InputRoot.Collection.right[] DO
        SET OutputRoot.XMLNSC.seen.right = item.XMLNSC.m.k;
    END FOR;
    RETURN TRUE;
"""


def test_a_timer_of_two_instances_rings_once_each_time(stage: Stage) -> None:
    out = stage.queue()
    flow = drawn(
        "Timer -> Out",
        Timer=node("TimeoutNotification", unique_id="TICK", interval_s=0.2, domain="XMLNSC"),
        Out=writes(out),
    )
    begun = time.time()
    with stage.running(flow, count=2) as running:
        running.until(lambda: stage.depth(out) >= 6, "it rings")
    # A busy machine makes it ring later, never more often.
    times = [message.put_time for message in stage.messages(out)]
    for rung, at in enumerate(times, 1):
        assert rung <= (at - begun) / 0.2 + 1, "not twice for one interval"
