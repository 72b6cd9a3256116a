# SPDX-License-Identifier: Apache-2.0
"""A body that many queues have is stored once, also when those queues outgrow their memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from entrepot import Connection, connect, limits
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import RunDamaged

SUBSCRIBERS = 10
MESSAGES = 200
BODY_BYTES = 4096


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue manager whose subscribers' queues have room for almost nothing in memory."""
    monkeypatch.setattr(limits, "RUN_BYTES", 16 * 1024)
    create(tmp_path / "QM", log=LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=8))
    with connect(f"embedded:{tmp_path / 'QM'}") as connection:
        connection.mqsc(
            """
            ALTER QMODEL(SYSTEM.DURABLE.MODEL.QUEUE) BUFFER(16384)
            ALTER QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE) BUFFER(16384)
            """
        )
    return tmp_path / "QM"


def body(number: int) -> bytes:
    return (b"%d " % number) * (BODY_BYTES // 8)


def stored_bytes(path: Path, suffix: str) -> int:
    return sum(file.stat().st_size for file in (path / "runs").glob(f"*.{suffix}"))


def fill(connection: Connection, *, persistent: bool) -> int:
    for number in range(MESSAGES):
        connection.publish("t", body(number), persistent=persistent)
    return sum(len(body(number)) for number in range(MESSAGES))


def drain(connection: Connection, name: str, begin: int, end: int) -> None:
    with connection.subscribe(durable=name) as subscription:
        for number in range(begin, end):
            message = subscription.get()
            assert message is not None and message.body == body(number), f"{name} at {number}"


def test_spilled_bodies_are_stored_once(path: Path) -> None:
    with connect(f"embedded:{path}") as connection:
        for number in range(SUBSCRIBERS):
            connection.subscribe("t", durable=f"s{number}").close()
        total = fill(connection, persistent=True)
        assert 0 < stored_bytes(path, "bodies") < 1.2 * total
        assert stored_bytes(path, "run") < 0.5 * total * SUBSCRIBERS
        for number in range(SUBSCRIBERS):
            drain(connection, f"s{number}", 0, MESSAGES)
        for _ in range(2):
            connection.administration.checkpoint()
        assert stored_bytes(path, "bodies") == 0


def test_a_body_that_came_back_is_in_memory_once(path: Path) -> None:
    with connect(f"embedded:{path}") as connection:
        subscriptions = [connection.subscribe("t", durable=f"s{number}") for number in range(SUBSCRIBERS)]
        fill(connection, persistent=True)
        spilled = MESSAGES // 2
        for subscription in subscriptions:
            for _ in range(spilled):
                assert subscription.get() is not None
        heads = [subscription.get() for subscription in subscriptions]
        assert len({id(message.body) for message in heads if message}) == 1


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "crashed"])
def test_spilled_bodies_survive_restarts(path: Path, clean: bool) -> None:
    """Restarted at every stage: all there, one half gone, everything but one subscriber gone."""

    def restarted(stage: int, here: Path) -> Path:
        if clean:
            return here
        there = here.parent / f"QM{stage}"
        shutil.copytree(here, there)
        return there

    here = path
    with connect(f"embedded:{here}") as connection:
        for number in range(SUBSCRIBERS):
            connection.subscribe("t", durable=f"s{number}").close()
        fill(connection, persistent=True)
        connection.administration.checkpoint()
        here = restarted(1, here)
    with connect(f"embedded:{here}") as connection:
        for number in range(SUBSCRIBERS):
            drain(connection, f"s{number}", 0, MESSAGES // 2)
        here = restarted(2, here)
    with connect(f"embedded:{here}") as connection:
        connection.administration.checkpoint()
        for number in range(1, SUBSCRIBERS):
            drain(connection, f"s{number}", MESSAGES // 2, MESSAGES)
        for _ in range(3):
            connection.administration.checkpoint()
        here = restarted(3, here)
    with connect(f"embedded:{here}") as connection:
        drain(connection, "s0", MESSAGES // 2, MESSAGES)
        for _ in range(3):
            connection.administration.checkpoint()
        assert stored_bytes(here, "bodies") == 0


def test_nonpersistent_bodies_go_without_a_checkpoint(path: Path) -> None:
    with connect(f"embedded:{path}") as connection:
        subscriptions = [connection.subscribe("t") for _ in range(SUBSCRIBERS)]
        fill(connection, persistent=False)
        assert stored_bytes(path, "bodies") > 0
        for subscription in subscriptions:
            got = [subscription.get() for _ in range(MESSAGES)]
            assert [message.body for message in got if message] == [body(number) for number in range(MESSAGES)]
        assert stored_bytes(path, "bodies") == 0


def test_a_queue_that_is_deleted_lets_its_bodies_go(path: Path) -> None:
    with connect(f"embedded:{path}") as connection:
        for number in range(SUBSCRIBERS):
            connection.subscribe("t", durable=f"s{number}").close()
        fill(connection, persistent=True)
        for number in range(SUBSCRIBERS):
            connection.unsubscribe(f"s{number}")
        for _ in range(2):
            connection.administration.checkpoint()
        assert stored_bytes(path, "bodies") == 0
        assert stored_bytes(path, "run") == 0


def test_damage_to_bodies_is_reported_with_file_and_offset(path: Path) -> None:
    with connect(f"embedded:{path}") as connection:
        for number in range(SUBSCRIBERS):
            connection.subscribe("t", durable=f"s{number}").close()
        fill(connection, persistent=True)
    file = next((path / "runs").glob("*.bodies"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunDamaged, match=file.name):
        connect(f"embedded:{path}").close()
    file.unlink()
    with pytest.raises(RunDamaged, match=file.name):
        connect(f"embedded:{path}").close()
