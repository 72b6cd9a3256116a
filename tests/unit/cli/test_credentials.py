# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from entrepot.server.security.credentials import Credentials

from .conftest import Complaint, Shell

CANARY = "canary-Kx7-bird"


def test_a_channel_gets_a_password_and_loses_it_again(shell: Shell, qm: Path) -> None:
    said = shell("qm", "credential", "set", qm, "A.B", "--password-stdin", stdin=CANARY + "\n")
    assert "Password of channel A.B set." in said.stdout
    assert CANARY not in said.stdout
    assert Credentials.load(qm).password_for("A.B") == CANARY
    assert shell.json("qm", "credential", "list", qm) == ["A.B"]
    shell("qm", "credential", "remove", qm, "A.B")
    assert shell.json("qm", "credential", "list", qm) == []


def test_a_channel_without_a_password_is_told(complaint: Complaint, qm: Path) -> None:
    assert "has no password" in complaint("qm", "credential", "remove", qm, "A.B")
