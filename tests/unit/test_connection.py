# SPDX-License-Identifier: Apache-2.0
"""Connecting by URL: created when new, shared within the process, stopped with the last connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import entrepot
from conftest import host_of
from entrepot.client import embedded as edge
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import InvalidArgument, InvalidName, InvalidUrl, QueueManagerNotFound, RecoveryError
from folding import for_each

LOG = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    create(tmp_path / "QM1", log=LOG)
    return f"embedded:{tmp_path / 'QM1'}"


@for_each("wrong", ["", "embedded:", "embedded", "QM1", "http://x", "embedded:a\0b", None, 5, b"embedded:x"])
def test_what_is_no_url_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidUrl):
        entrepot.connect(wrong)


def test_new_folder_becomes_a_queue_manager(tmp_path: Path) -> None:
    with entrepot.connect(f"embedded:{tmp_path / 'NEW' / 'QM9'}") as connection:
        assert host_of(connection).settings.name == "QM9"
        connection.mqsc("DEFINE QLOCAL(Q)")
        connection.put("Q", b"kept", persistent=True)
    with entrepot.connect(f"embedded:{tmp_path / 'NEW' / 'QM9'}") as connection:
        message = connection.get("Q")
        assert message is not None


def test_folder_with_a_bad_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidName):
        entrepot.connect(f"embedded:{tmp_path / 'no name'}")
    assert not (tmp_path / "no name").exists()


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(QueueManagerNotFound):
        entrepot.connect(f"embedded:{tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecoveryError):
        entrepot.connect(f"embedded:{tmp_path / 'file'}")
    with pytest.raises(RecoveryError):
        entrepot.connect(f"embedded:{tmp_path / 'file' / 'below'}")


def test_connections_of_one_process_share_the_queue_manager(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = entrepot.connect(url, application="one")
    path = Path(url.removeprefix("embedded:"))
    monkeypatch.chdir(path.parent)
    two = entrepot.connect("embedded:./QM1", application="two")
    assert one.calls.line._host is two.calls.line._host  # type: ignore[attr-defined]
    one.mqsc("DEFINE QLOCAL(Q)")
    one.put("Q", b"")
    message = two.get("Q")
    assert message is not None
    assert message.application == "one"
    temporary = one.dynamic_queue()
    unit = one.unit_of_work()
    unit.put("Q", b"")
    one.close()
    assert two.get("Q") is None
    assert host_of(two).find("QLOCAL", temporary) is None
    two.put("Q", b"", persistent=True)
    two.close()
    assert path not in edge._hosts
    with entrepot.connect(url) as again:
        assert again.get("Q") is not None


def test_wrong_application_starts_nothing(url: str) -> None:
    before = set(edge._hosts)
    for wrong in (5, "x" * 2000, "\ud800"):
        with pytest.raises(InvalidArgument):
            entrepot.connect(url, application=wrong)  # type: ignore[arg-type]
    assert set(edge._hosts) == before
    entrepot.connect(url).close()


def test_unit_is_forgotten_when_it_has_ended(url: str) -> None:
    with entrepot.connect(url) as connection:
        for _ in range(3):
            with connection.unit_of_work():
                pass
            connection.unit_of_work().back_out()
        assert not connection._units


def test_public_names_are_all_there() -> None:
    for name in entrepot.__all__:
        assert getattr(entrepot, name) is not None
