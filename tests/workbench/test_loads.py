# SPDX-License-Identifier: Apache-2.0
"""Loads on a real server: what they note is complete, and what goes wrong gives no figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.visiting import ad_hoc, measure, rows

# Each load and each quality once; the thumbnails have all that the documents ask for.
CASES = [
    ("send", "express"),
    ("send", "recoverable"),
    ("receive", "transactional"),
    pytest.param("send", "transactional", marks=pytest.mark.torture),
    pytest.param("receive", "express", marks=pytest.mark.torture),
    pytest.param("receive", "recoverable", marks=pytest.mark.torture),
]


@pytest.mark.parametrize(("load", "quality"), CASES)
def test_every_message_that_was_sent_is_received(tmp_path: Path, load: str, quality: str) -> None:
    run, [trial] = measure(tmp_path, ad_hoc(load, quality=quality, message_bytes=100, threads=2), messages_max=100)
    assert (trial.status, trial.reason) == ("measured", "")
    sent = sorted((row["sender"], row["number"]) for row in rows(run, trial, "sent"))
    received = sorted((row["sender"], row["number"]) for row in rows(run, trial, "received"))
    assert sent == received
    # How many go within the time of a trial is the machine's matter.
    assert len(sent) > 1


def test_times_of_a_message_come_in_their_order(tmp_path: Path) -> None:
    run, [trial] = measure(tmp_path, ad_hoc("stream", quality="transactional", message_bytes=100))
    sent = {(row["sender"], row["number"]): row for row in rows(run, trial, "sent")}
    assert sent
    for row in rows(run, trial, "received"):
        origin = sent[row["sender"], row["number"]]
        assert trial.begun_ns <= origin["intended_ns"] <= origin["sent_ns"] <= origin["acknowledged_ns"]
        assert origin["sent_ns"] < row["received_ns"] <= row["committed_ns"]


def test_an_open_loop_keeps_its_schedule_whatever_comes_back(tmp_path: Path) -> None:
    run, [trial] = measure(tmp_path, ad_hoc("open-loop", rate_per_s=500, message_bytes=64), seconds=1.0)
    assert trial.offered_per_s == 500
    moments = sorted(row["intended_ns"] - trial.begun_ns for row in rows(run, trial, "sent"))
    assert len(moments) == 500
    assert moments[:3] == [0, 2_000_000, 4_000_000]


def test_round_trips_come_back_to_who_asked(tmp_path: Path) -> None:
    run, [trial] = measure(tmp_path, ad_hoc("round-trip", apps=3, workers=2, message_bytes=200))
    assert trial.status == "measured"
    assert all(row["receiver"] == row["sender"] for row in rows(run, trial, "received"))
    assert {row["sender"] for row in rows(run, trial, "received")} == {0, 1, 2}


def test_each_subscriber_gets_each_publication_of_its_topic(tmp_path: Path) -> None:
    run, [trial] = measure(tmp_path, ad_hoc("publish", senders=2, receivers=4, topics=2, message_bytes=100))
    published = {(row["sender"], row["number"]) for row in rows(run, trial, "sent")}
    got = sorted((row["receiver"], row["sender"], row["number"]) for row in rows(run, trial, "received"))
    expected = sorted(
        (receiver, *message) for message in published for receiver in range(4) if receiver % 2 == message[0]
    )
    assert got == expected
    assert trial.facts["copies"] == 2


def test_what_the_machine_did_is_sampled(tmp_path: Path) -> None:
    run, [trial] = measure(tmp_path, ad_hoc("stream", message_bytes=100))
    seen = {(row["measure"], row["subject"]) for row in rows(run, trial, "samples")}
    assert {("cpu_busy_s", "machine"), ("cpu_s", "server"), ("cpu_s", "generators"), ("run_queue", "machine")} <= seen
    assert any(measure == "depth" for measure, _ in seen)
    assert {("network_bytes", "machine"), ("cpu_s", "busiest getter"), ("getters", "getters")} <= seen


def test_getters_tell_how_long_they_wait(tmp_path: Path) -> None:
    """Hardly any messages for two getters: both wait nearly all of the time, and nobody waits for longer."""
    run, [trial] = measure(tmp_path, ad_hoc("open-loop", rate_per_s=20, receivers=2, message_bytes=64), seconds=2.0)
    found = rows(run, trial, "samples")
    # One of them may be the first to tell.
    both_ns = min(row["t_ns"] for row in found if row["measure"] == "getters" and row["value"] == 2.0)
    waited = [(row["t_ns"], row["value"]) for row in found if row["measure"] == "getter_wait_s"]
    waited = [(t_ns, waited_s) for t_ns, waited_s in waited if t_ns >= both_ns]
    (first_ns, first_s), (last_ns, last_s) = waited[0], waited[-1]
    share = (last_s - first_s) / ((last_ns - first_ns) / 1e9) / 2
    # A getter that is inside of a call tells of it afterwards, at either end.
    assert 0.6 < share < 1.2
