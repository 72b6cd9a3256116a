# SPDX-License-Identifier: Apache-2.0
"""Folders that earlier releases have left behind, killed in the middle of their work."""

from __future__ import annotations

import tarfile
from pathlib import Path

from entrepot import connect

DATA = Path(__file__).parent / "data"


def test_a_folder_of_format_1_is_read_and_goes_on(tmp_path: Path) -> None:
    """Made by the release before topics: messages in a run and in the log, a prepared unit, an open one, a kill."""
    with tarfile.open(DATA / "format-1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    for folder in ("QM", "QM/log", "QM/runs"):
        (tmp_path / folder).chmod(0o700)
    for _ in range(2):
        with connect(f"embedded:{tmp_path / 'QM'}") as connection:
            assert connection.in_doubt() == [b"tx-1"]
            bodies = [message.body for message in connection.browse("ORDERS")]
            assert bodies == [b"order 1", *(b"order %d" % number for number in range(3, 30))]
            assert [message.body for message in connection.browse("DONE")] == [
                b"order %d" % number for number in range(20, 30)
            ]
    with connect(f"embedded:{tmp_path / 'QM'}") as connection:
        connection.resolve(b"tx-1", commit=True)
        connection.subscribe("orders/#", durable="desk").close()
        connection.publish("orders/new", b"topics came with format 2", persistent=True, retain=True)
        assert connection.get("A", selector="n = 5").body == b"order 5"  # type: ignore[union-attr]
    with connect(f"embedded:{tmp_path / 'QM'}") as connection:
        assert [message.body for message in connection.browse("DONE")][-1] == b"prepared"
        desk = connection.subscribe(durable="desk").get()
        assert desk is not None and desk.topic == "orders/new"
