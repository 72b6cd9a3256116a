# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import entrepot
from conftest import host_of
from entrepot.engine.coordinator import HostCoordinator
from entrepot.engine.definitions import founding_objects, system_objects
from entrepot.engine.recovery_log.group import MARK_BYTES
from entrepot.engine.recovery_log.record import Branch

from .conftest import Complaint, Shell, fill

HEAD_PAGE_BYTES = 4096


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_records_tell_queue_unit_message_and_place(shell: Shell, qm: Path) -> None:
    with entrepot.connect(f"embedded:{qm}") as connection, connection.unit_of_work() as unit:
        unit.put("Q", b"one", persistent=True)
        unit.put("Q", b"\x00\x01", persistent=True)
    *records, tail = shell.lines("log", "show", qm)
    puts = [record for record in records if record["type"] == "PUT"]
    assert [record["queues"] for record in puts] == [["Q"], ["Q"]]
    assert [record["preview"] for record in puts] == ['"one"', "0x0001"]
    assert puts[0]["unit"] == puts[1]["unit"] != 0
    commit = next(record for record in records if record["type"] == "COMMIT")
    assert (commit["unit"], commit["queues"]) == (puts[0]["unit"], ["Q"])
    assert puts[0]["segment"] == "segment-00000000.log"
    assert puts[0]["offset"] == HEAD_PAGE_BYTES + puts[0]["position"]
    assert tail["tail"] == "clean"


def test_text_shows_the_same(shell: Shell, qm: Path) -> None:
    (message_id,) = shell.json("put", qm, "Q", "42 [bold]crates")["message_ids"]
    said = shell("log", "show", qm).stdout
    for part in ("DEFINE   QLOCAL(Q)", "PUT", f"id {message_id}", '15 bytes "42 [bold]crates"', "start 2", ": clean."):
        assert part in said


def test_records_can_be_chosen(shell: Shell, qm: Path) -> None:
    shell("mqsc", qm, "-e", "DEFINE QLOCAL(OTHER)")
    shell("put", qm, "Q", "mine")
    shell("put", qm, "OTHER", "theirs")
    shell("get", qm, "Q")
    *records, _ = shell.lines("log", "show", qm, "--queue", "Q")
    assert [record["type"] for record in records if record["type"] != "COMMIT"] == ["DEFINE", "PUT", "TAKEN", "REMOVE"]
    at_first_start = len(system_objects()) - len(founding_objects()) + 1  # and that claims are records
    *records, _ = shell.lines("log", "show", qm, "--type", "put,define", "--limit", str(at_first_start + 3))
    assert [record["type"] for record in records[at_first_start:]] == ["DEFINE", "DEFINE", "PUT"]
    *records, tail = shell.lines("log", "show", qm, "--type", "PUT", "--from", records[-1]["position"] + 1)
    assert [record["preview"] for record in records] == ['"theirs"']
    assert tail["tail"] == "clean"


def test_bodies_are_shown_whole(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "first line\n" + "x" * 200)
    assert "x" * 200 in shell("log", "show", qm, "--bodies").stdout
    shell("put", qm, "Q", stdin=b"\xff" * 40)
    assert "ff" * 32 in shell("log", "show", qm, "--bodies").stdout


def test_prepared_units_are_shown(shell: Shell, qm: Path) -> None:
    with entrepot.connect(f"embedded:{qm}") as connection:
        unit = connection.unit_of_work()
        unit.put("Q", b"maybe", persistent=True)
        unit.prepare(b"\xca\xfe")
        connection.resolve(b"\xca\xfe", commit=True)
    *records, _ = shell.lines("log", "show", qm, "--type", "PREPARE,RESOLVE")
    assert [(record["transaction_id"], record["queues"]) for record in records] == [("cafe", ["Q"]), ("cafe", ["Q"])]
    assert "transaction cafe  commit  Q" in shell("log", "show", qm).stdout


def test_decisions_of_global_units_are_shown_with_their_branches(shell: Shell, qm: Path) -> None:
    with entrepot.connect(f"embedded:{qm}") as connection:
        coordinator = HostCoordinator(host_of(connection))
        unit, name = coordinator.begin()
        host_of(connection).put("Q", entrepot.Message(b"x"), persistent=True, unit=unit)
        branches = [f"{name}-0", f"{name}-1"]
        coordinator.decide(unit, [Branch("postgresql://db/shop", branch) for branch in branches])
        coordinator.finish(name, branches[:1])
        coordinator.met_otherwise(name, branches[1], "backed out")
        host_of(connection).prepare(host_of(connection).begin(), b"\xca\xfe")
        coordinator.resolve_heuristically(b"\xca\xfe", commit=True)
    *records, _ = shell.lines("log", "show", qm, "--type", "DECISION,FORGET,HEURISTIC,RESOLVE")
    decision, forget, heuristic, resolve = records
    assert (decision["transaction_id"], decision["queues"], decision["outcome"]) == (name, ["Q"], "commit")
    assert decision["branches"] == [f"{branch} at postgresql://db/shop" for branch in branches]
    assert (forget["transaction_id"], forget["branches"]) == (name, branches[:1])
    assert (heuristic["outcome"], heuristic["branches"]) == ("backed out", [f"{branches[1]} at postgresql://db/shop"])
    assert resolve["outcome"] == "commit by an operator"
    assert f"{name}-1 at postgresql://db/shop" in shell("log", "show", qm).stdout.replace("\n", "")


def test_torn_end_is_told(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "last")
    tail = shell.lines("log", "show", qm)[-1]
    segment = qm / "log" / "segment-00000000.log"
    mark = segment.read_bytes()[HEAD_PAGE_BYTES:][:MARK_BYTES]  # of the first group: all of a segment begin alike
    place = tail["end_position"].to_bytes(8, "little")
    overwrite(segment, tail["offset"], mark[:5] + b"???" + place + b"forged")
    assert shell.lines("log", "show", qm)[-1]["tail"] == "clean"
    overwrite(segment, tail["offset"], mark + place + b"half")
    said = shell("log", "show", qm).stdout
    assert "torn" in said
    assert "restart cuts it" in said
    assert shell.lines("log", "show", qm)[-1]["tail"] == "torn"


def test_damage_is_told_with_its_place_and_exit_code_1(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "first")
    shell("put", qm, "Q", "last")
    *records, _ = shell.lines("log", "show", qm, "--type", "PUT")
    overwrite(qm / "log" / "segment-00000000.log", records[0]["offset"] + 30, b"\xff")
    *_, tail = shell.lines("log", "show", qm, code=1)
    assert (tail["tail"], tail["segment"], tail["offset"]) == ("damaged", "segment-00000000.log", records[0]["offset"])
    assert "DAMAGED" in shell("log", "show", qm, code=1).stdout


def test_log_that_ends_before_the_checkpoint_is_damaged(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "gone")
    overwrite(qm / "log" / "segment-00000000.log", HEAD_PAGE_BYTES, bytes(128 * 1024 - HEAD_PAGE_BYTES))
    assert "the checkpoint has seen it up to" in shell("log", "show", qm, code=1).stdout


def test_damaged_checkpoint_only_costs_names(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "kept")
    (qm / "checkpoint").write_bytes(b"rust")
    shown = shell("log", "show", qm)
    assert "Queue names may be missing" in shown.stderr
    assert '"kept"' in shown.stdout


def test_showing_changes_nothing(shell: Shell, qm: Path) -> None:
    before = {path: path.read_bytes() for path in qm.rglob("*") if path.is_file()}
    shell("log", "show", qm)
    assert before == {path: path.read_bytes() for path in qm.rglob("*") if path.is_file()}


def test_log_that_has_wrapped_is_read_from_its_oldest_group(shell: Shell, qm: Path) -> None:
    for _ in range(4):
        fill(qm, 40)
        shell("get", qm, "Q", "--all", "--json")
    *records, tail = shell.lines("log", "show", qm)
    assert tail["tail"] == "clean"
    assert records[0]["type"] == "GROUP"
    assert records[0]["position"] > 0


def test_end_within_a_group_is_torn(shell: Shell, qm: Path) -> None:
    with entrepot.connect(f"embedded:{qm}") as connection, connection.unit_of_work() as unit:
        unit.put("Q", b"one", persistent=True)
        unit.put("Q", b"two", persistent=True)
    *_, commit, _ = shell.lines("log", "show", qm)
    assert commit["type"] == "COMMIT"
    # As a power cut leaves it: the checkpoint that the clean stop has taken was not written either.
    (qm / "checkpoint").unlink()
    overwrite(qm / "log" / "segment-00000000.log", commit["offset"], bytes(100))
    tail = shell.lines("log", "show", qm)[-1]
    assert (tail["tail"], tail["end_position"]) == ("torn", commit["position"])


def test_wrong_questions(complaint: Complaint, shell: Shell, qm: Path) -> None:
    assert "is no record type" in complaint("log", "show", qm, "--type", "POT", code=2)
    complaint("log", "show", qm, "--from", "-1", code=2)
    assert shell.lines("log", "show", qm, "--from", 10**9) == shell.lines("log", "show", qm, "--limit", 0)


def test_position_that_is_gone(complaint: Complaint, shell: Shell, linear: Path, tmp_path: Path) -> None:
    fill(linear, 150)
    shell("get", linear, "Q", "--all", "--json")
    shell("qm", "checkpoint", linear)
    shell("log", "archive", linear, tmp_path / "archive")
    assert "LogIncomplete R14" in complaint("log", "show", linear, "--from", "10")


def test_publication_is_one_record_of_all_its_queues(shell: Shell, qm: Path) -> None:
    for name in ("desk-7", "desk-8"):
        shell("subscribe", qm, "prices/#", "--durable", name)
    shell("publish", qm, "prices/ibm", "231.50")
    (record,) = [each for each in shell.lines("log", "show", qm) if each.get("type") == "PUT"]
    assert (len(record["queues"]), record["topic"]) == (2, "prices/ibm")
    assert "topic prices/ibm" in shell("log", "show", qm).stdout


def test_messages_that_share_a_body_are_told_by_their_ids(shell: Shell, qm: Path) -> None:
    message_ids = shell.json("put", qm, "Q", "x", "--count", "3")["message_ids"]
    (record,) = [each for each in shell.lines("log", "show", qm) if each.get("type") == "PUT"]
    assert record["message_ids"] == message_ids
    assert record["queues"] == ["Q", "Q", "Q"]
    assert "PUT      Q  keys" in shell("log", "show", qm).stdout
