# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

import entrepot
from entrepot.engine.definitions import LocalQueue, system_objects
from hosted import Host

from .conftest import SMALL, Complaint, Shell


def test_create_settles_name_and_log(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "x"
    made = shell.json(
        "qm", "create", path, "--name", "QM.7", "--log", "linear", "--segment-bytes", "128KiB", "--primary", "3",
        "--secondary", "2", "--log-buffer-bytes", "32k", "--checkpoint-bytes", "64KiB",
    )  # fmt: skip
    assert made["name"] == "QM.7"
    assert made["log"] == {
        "kind": "linear",
        "segment_bytes": 131072,
        "primary": 3,
        "secondary": 2,
        "buffer_bytes": 32768,
        "checkpoint_bytes": 65536,
    }


def test_create_names_the_queue_manager_after_its_folder(shell: Shell, tmp_path: Path) -> None:
    said = shell("qm", "create", tmp_path / "SHOP", *SMALL).stdout
    assert "Queue manager SHOP created" in said


@pytest.mark.parametrize(
    ("option", "code", "words"),
    [
        (("--segment-bytes", "big"), 2, "is no size"),
        (("--segment-bytes", "100000"), 1, "log segment_bytes cannot be 100000"),
        (("--primary", "1"), 1, "log primary cannot be 1"),
        (("--log", "round"), 2, "round"),
        (("--name", "not a name"), 1, "is no valid name"),
        (("--checkpoint-bytes", "1g"), 1, "log checkpoint_bytes"),
    ],
)
def test_create_refuses_wrong_settings_and_makes_nothing(
    complaint: Complaint, tmp_path: Path, option: tuple[str, str], code: int, words: str
) -> None:
    assert words in complaint("qm", "create", tmp_path / "x", *option, code=code)
    assert not (tmp_path / "x").exists()


def test_create_refuses_a_folder_in_use(complaint: Complaint, not_a_manager: Path, tmp_path: Path) -> None:
    assert "is not empty" in complaint("qm", "create", not_a_manager)
    assert "a file stands where a folder should be" in complaint("qm", "create", not_a_manager / "lamp" / "x", *SMALL)


def test_status_of_a_stopped_queue_manager_counts_its_messages(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "one", "--count", "3")
    found = shell.json("qm", "status", qm)
    assert (found["name"], found["state"], found["messages"], found["log"]) == ("QM1", "stopped", 3, "circular")
    assert "messages" in shell("qm", "status", qm).stdout


def test_status_from_files_changes_nothing(shell: Shell, qm: Path) -> None:
    before = {path: path.read_bytes() for path in qm.rglob("*") if path.is_file()}
    found = shell.json("qm", "status", qm, "--files-only")
    assert found["queues"] == 1 + sum(isinstance(definition, LocalQueue) for definition in system_objects())
    assert "messages" not in found
    assert before == {path: path.read_bytes() for path in qm.rglob("*") if path.is_file()}


def test_status_of_one_that_runs_elsewhere_names_the_owner(shell: Shell, qm: Path) -> None:
    host = Host(qm)
    try:
        found = shell.json("qm", "status", qm)
    finally:
        host.close()
    assert found["state"] == "running"
    assert found["owner"].startswith("process ")


def test_status_tells_of_damage(complaint: Complaint, qm: Path) -> None:
    (qm / "checkpoint").write_bytes(b"rust" + (qm / "checkpoint").read_bytes()[4:])
    assert "CheckpointDamaged R03" in complaint("qm", "status", qm)


def test_status_of_unreadable_settings(complaint: Complaint, qm: Path) -> None:
    (qm / "manager.json").write_text("{")
    assert "manager.json cannot be read" in complaint("qm", "status", qm)


def test_unsafe_folder_is_refused(complaint: Complaint, qm: Path) -> None:
    qm.chmod(0o755)
    assert "UnsafeFolder R12" in complaint("qm", "checkpoint", qm)


def test_checkpoint(shell: Shell, qm: Path) -> None:
    assert "Checkpoint taken" in shell("qm", "checkpoint", qm).stdout
    assert shell.json("qm", "checkpoint", qm)["name"] == "QM1"


@pytest.fixture
def in_doubt(qm: Path) -> Path:
    with entrepot.connect(f"embedded:{qm}") as connection:
        unit = connection.unit_of_work()
        unit.put("Q", b"maybe", persistent=True)
        unit.prepare(b"\xca\xfe")
    return qm


def test_units_in_doubt_are_listed_and_committed(shell: Shell, in_doubt: Path) -> None:
    (row,) = shell.json("qm", "indoubt", "list", in_doubt)
    assert (row["transaction_id"], row["state"], row["branches"]) == ("cafe", "prepared", [])
    said = shell("qm", "indoubt", "list", in_doubt).stdout.split()
    assert (said[:2], said[3]) == (["cafe", "prepared"], "s"), "with its age in seconds"
    assert "committed" in shell("qm", "indoubt", "commit", in_doubt, "CAFE").stdout
    (row,) = shell.json("qm", "indoubt", "list", in_doubt)
    assert (row["transaction_id"], row["state"]) == ("cafe", "heuristic: committed")
    assert "forgotten" in shell("qm", "indoubt", "forget", in_doubt, "cafe").stdout
    assert shell.json("qm", "indoubt", "list", in_doubt) == []
    assert shell.lines("get", in_doubt, "Q")[0]["body"] == "maybe"


def test_units_in_doubt_are_backed_out(shell: Shell, in_doubt: Path) -> None:
    assert shell.json("qm", "indoubt", "backout", in_doubt, "cafe")["outcome"] == "backed out"
    assert shell.lines("get", in_doubt, "Q") == []


def test_unknown_and_wrong_transaction_ids(complaint: Complaint, qm: Path) -> None:
    assert "UnitNotInDoubt U04" in complaint("qm", "indoubt", "commit", qm, "beef")
    assert "NotCoordinated G08" in complaint("qm", "indoubt", "forget", qm, "beef")
    assert "is no id" in complaint("qm", "indoubt", "commit", qm, "beefy", code=2)
