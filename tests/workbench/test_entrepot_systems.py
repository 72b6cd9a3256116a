# SPDX-License-Identifier: Apache-2.0
"""What our own systems offer beyond the conformance test, and the loads that only some systems can bear."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from entrepot.errors import SystemAbsent
from entrepot.workbench.loads.forwarding import Forward
from entrepot.workbench.measuring.observations import CALL_NAMES
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import find_system
from entrepot.workbench.systems.entrepot_channels import EntrepotChannels
from entrepot.workbench.systems.entrepot_embedded import EntrepotEmbedded
from entrepot.workbench.systems.entrepot_server import EntrepotUnix
from entrepot.workbench.systems.unit_database import choose
from workbench.visiting import ad_hoc, measure, rows


def test_the_log_is_tuned_where_the_point_says_so(tmp_path: Path) -> None:
    usual = EntrepotUnix(tmp_path, Quality.RECOVERABLE, {"binding": "default-log"}).log
    tuned = EntrepotUnix(tmp_path, Quality.RECOVERABLE, {"binding": "tuned-log"}).log
    assert (tuned.primary, tuned.buffer_bytes) > (usual.primary, usual.buffer_bytes)


def test_a_fastpath_point_says_that_a_server_has_no_such_binding(tmp_path: Path) -> None:
    assert "as standard" in EntrepotUnix(tmp_path, Quality.EXPRESS, {"binding": "fastpath"}).settings()["binding"]
    assert "binding" not in EntrepotEmbedded(tmp_path, Quality.EXPRESS, {"binding": "fastpath"}).settings()


def test_large_messages_are_read_ahead_in_small_numbers(tmp_path: Path) -> None:
    assert EntrepotUnix(tmp_path, Quality.EXPRESS, {"message_bytes": 64}).read_ahead == 100
    assert EntrepotUnix(tmp_path, Quality.EXPRESS, {"message_bytes": 2 * 1024 * 1024}).read_ahead == 2


def test_an_unknown_database_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SystemAbsent, match="oracle"):
        choose("oracle", tmp_path)


def test_a_private_folder_gets_sqlite_and_stays_private(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    assert choose("", private / "database") == "sqlite"
    assert private.stat().st_mode & 0o777 == 0o700


def test_a_full_queue_holds_its_sender_up(tmp_path: Path) -> None:
    with EntrepotEmbedded(tmp_path, Quality.EXPRESS, {"queue_limit_bytes": 1000, "message_bytes": 100}) as system:
        system.create_queues(["Q"])
        sender, receiver = system.sender("Q"), system.receiver("Q")
        sender.send([bytes([number]) * 100 for number in range(10)])
        waiting = threading.Thread(target=sender.send, args=([b"x" * 100],), daemon=True)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert system.depth("Q") == 10
        assert receiver.receive(60) == (bytes(100),)
        waiting.join(60)
        assert not waiting.is_alive()
        assert system.depth("Q") == 10
        sender.close()
        receiver.close()


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_row_changes_with_each_message_that_is_committed(folder: Path, database: str) -> None:
    try:
        choose(database, folder)
    except SystemAbsent as absent:
        pytest.skip(str(absent))
    with EntrepotEmbedded(folder, Quality.GLOBAL, {"database": database}) as system:
        assert system.database is not None
        system.create_queues(["Q"])
        sender = system.sender("Q")
        sender.send([b"%08d" % number for number in range(5)])
        receiver = system.receiver("Q")
        for _ in range(3):
            receiver.receive(60)
            receiver.commit()
        receiver.receive(60)  # and is not committed
        receiver.close()
        assert system.database.messages() == 3
        assert system.depth("Q") == 2


def test_channels_find_each_other_again_after_both_ends_were_killed(tmp_path: Path) -> None:
    with EntrepotChannels(tmp_path, Quality.TRANSACTIONAL, {"channel_pairs": 2}) as system:
        system.create_queues(["Q"])
        system.sender("Q").send([b"before  "])
        for pid in system.pids:
            os.kill(pid, signal.SIGKILL)
        again = EntrepotChannels(tmp_path, Quality.TRANSACTIONAL, {"channel_pairs": 2})
        with again:
            assert again.pids != system.pids
            again.sender("Q").send([b"after   "])
            receiver = again.receiver("Q")
            assert [receiver.receive(60), receiver.receive(60)] == [[b"before  "], [b"after   "]]
            receiver.commit()
            receiver.close()
            deadline = time.monotonic() + 60
            while again.depth("Q") and time.monotonic() < deadline:
                time.sleep(0.05)
            assert (again.depth("Q"), again.depth("TO.B.0"), again.depth("TO.B.1")) == (0, 0, 0)


@pytest.mark.parametrize("quality", ["express", "transactional"])
def test_each_call_is_timed_as_often_as_asked(tmp_path: Path, quality: str) -> None:
    run, [trial] = measure(tmp_path, ad_hoc("calls", quality=quality, message_bytes=500), "entrepot-embedded", calls=7)
    assert (trial.status, trial.reason) == ("measured", "")
    counts = dict.fromkeys(CALL_NAMES, 0)
    for row in rows(run, trial, "calls"):
        assert row["begun_ns"] <= row["ended_ns"]  # type: ignore[operator]
        assert row["bytes"] == 500
        counts[CALL_NAMES[row["call"]]] += 1  # type: ignore[index]
    # A message that is put and got in units of work needs two commits.
    assert counts.pop("commit") == (14 if quality == "transactional" else 7)
    assert counts.pop("session") == 0
    assert set(counts.values()) == {7}


def test_a_session_is_five_round_trips(tmp_path: Path) -> None:
    scenario = ad_hoc("sessions", apps=2, workers=1, message_bytes=100, rate_per_app_hour=72_000)
    run, [trial] = measure(tmp_path, scenario, "entrepot-tcp")
    assert (trial.status, trial.reason) == ("measured", "")
    sessions = [row for row in rows(run, trial, "calls") if row["call"] == CALL_NAMES.index("session")]
    trips = rows(run, trial, "received")
    assert len(sessions) >= 4
    assert len(trips) == len(rows(run, trial, "sent")) == 5 * len(sessions)


@pytest.mark.parametrize("common", [True, False])
def test_many_clients_ask_at_their_own_moments(tmp_path: Path, common: bool) -> None:
    scenario = ad_hoc("connected", apps=30, rate_per_app_hour=36_000, message_bytes=100, common_reply_queue=common)
    run, [trial] = measure(tmp_path, scenario, "entrepot-tcp")
    assert (trial.status, trial.reason) == ("measured", "")
    sent, received = rows(run, trial, "sent"), rows(run, trial, "received")
    assert {row["sender"] for row in sent} == set(range(30))
    assert len(received) == len(sent)
    assert all(row["intended_ns"] <= row["sent_ns"] for row in sent)  # type: ignore[operator]
    assert "memory_per_client" in trial.facts
    assert ("memory_per_open_queue" in trial.facts) is not common


def test_clients_at_one_queue_manager_ask_at_another_by_all_pairs_of_channels(tmp_path: Path) -> None:
    scenario = ad_hoc("connected", apps=4, rate_per_app_hour=36_000, message_bytes=100, channel_pairs=2)
    run, [trial] = measure(tmp_path, scenario, "entrepot-channels")
    assert (trial.status, trial.reason) == ("measured", "")
    assert trial.settings["channel pairs"] == "2"
    assert len(rows(run, trial, "received")) == len(rows(run, trial, "sent")) > 0


@pytest.mark.parametrize("quality", ["express", "recoverable"])
def test_all_messages_of_a_foreign_broker_are_forwarded(tmp_path: Path, quality: str) -> None:
    parameters = {"quality": quality, "message_bytes": 200, "foreign": "redis-streams"}  # starts fastest
    scenario = ad_hoc("forward", **parameters)
    if reason := Forward.unsuitable(find_system("entrepot-unix"), parameters):
        pytest.skip(reason)
    run, [trial] = measure(tmp_path, scenario)
    assert (trial.status, trial.reason) == ("measured", "")
    sent = sorted((row["sender"], row["number"]) for row in rows(run, trial, "sent"))
    assert sorted((row["sender"], row["number"]) for row in rows(run, trial, "received")) == sent != []
    assert all(trial.facts[name] > 0 for name in ("cpu_sender", "cpu_bridge", "cpu_receiver"))
    assert trial.evidence["foreign"]


def test_an_embedded_system_cannot_be_forwarded_to() -> None:
    assert "told apart" in Forward.unsuitable(EntrepotEmbedded, {"quality": "express"})
