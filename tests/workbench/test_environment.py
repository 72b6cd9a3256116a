# SPDX-License-Identifier: Apache-2.0
"""What a run says of its machine."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from entrepot.workbench.measuring.environment import describe, fingerprint, loopback_bandwidth


def test_what_disk_and_loopback_can_carry_is_measured(tmp_path: Path) -> None:
    found = describe(tmp_path)
    # A thousandth of what any machine of this century has; in bits or in MB it would be another number.
    assert float(found["loopback_bytes_per_s"]) > 10e6
    assert float(found["write_bytes_per_s"]) > 0
    assert float(found["force_ms_median"]) <= float(found["force_ms_max"])


def test_measured_figures_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    found = describe(tmp_path)
    slower = {name: "1" for name in found if name.endswith(("_per_s", "_median", "_max"))}
    assert "loopback_bytes_per_s" in slower
    assert fingerprint({**found, **slower}) == fingerprint(found)
    assert fingerprint({**found, "cores": "99"}) != fingerprint(found)


def test_a_machine_without_loopback_has_no_such_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> socket.socket:
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert loopback_bandwidth() == {}
