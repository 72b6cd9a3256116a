# SPDX-License-Identifier: Apache-2.0
"""That NATS, Redis and PostgreSQL keep the promises of their contracts, where the conformance test does not look."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import SystemFailed
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import absent_reason, find_system
from entrepot.workbench.systems.system import System

QUEUE = "ORDERS.1"


def make(name: str, folder: Path, quality: Quality, options: dict[str, Any] | None = None) -> Any:
    if reason := absent_reason(name):
        pytest.skip(reason)
    return find_system(name)(folder, quality, options)


def killed_and_started_again(system: System) -> None:
    for pid in system.pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    system.stop()
    system.start()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [number.to_bytes(8, "big") for number in range(first, first + count)]


def test_core_nats_drops_what_nobody_waits_for(folder: Path) -> None:
    with make("nats", folder, Quality.EXPRESS) as system:
        sender = system.sender(QUEUE)
        sender.send(numbered(3))
        sender.flush()
        receiver = system.receiver(QUEUE)
        sender.send(numbered(1, first=7))
        assert receiver.receive(60) == numbered(1, first=7)
        assert not system.keeps_messages


@pytest.mark.parametrize("name", ["nats", "jetstream", "redis-lists", "redis-streams", "postgresql"])
def test_one_message_leaves_at_once_and_needs_no_flush(name: str, folder: Path) -> None:
    with make(name, folder, Quality.EXPRESS) as system:
        system.create_queues([QUEUE])
        receiver = system.receiver(QUEUE)
        system.sender(QUEUE).send(numbered(1))
        assert receiver.receive(60) == numbered(1)


@pytest.mark.parametrize("name", ["nats", "jetstream"])
def test_a_client_of_nats_whose_server_dies_does_not_wait_for_ever(name: str, folder: Path) -> None:
    with make(name, folder, Quality.EXPRESS) as system:
        system.create_queues([QUEUE])
        receiver = system.receiver(QUEUE)
        os.kill(system.pids[0], signal.SIGKILL)
        with pytest.raises(SystemFailed, match="closed the connection"):
            receiver.receive(30)
        receiver.close()


def test_the_contract_of_jetstream_is_what_its_server_can_be_told(folder: Path) -> None:
    """The server itself says whether it knows the setting; what the contract promises must follow from that."""
    system = make("jetstream", folder, Quality.RECOVERABLE)
    folder.mkdir()
    asked = folder / "asked.conf"
    asked.write_text(f'jetstream: {{store_dir: "{folder}", sync_interval: always}}\n')
    command = next(iter(system.commands))
    knows = subprocess.run([command, "-t", "-c", str(asked)], capture_output=True).returncode == 0
    contract = system.contracts[Quality.RECOVERABLE]
    assert contract.startswith("the file is forced before") if knows else contract.startswith("WEAKER")
    with system:
        assert ("sync_interval: always" in (folder / "nats.conf").read_text()) == knows


@pytest.mark.parametrize(("quality", "storage"), [(Quality.EXPRESS, "memory"), (Quality.RECOVERABLE, "file")])
def test_jetstream_keeps_recoverable_messages_in_files(quality: Quality, storage: str, folder: Path) -> None:
    with make("jetstream", folder, quality) as system:
        system.create_queues([QUEUE])
        link = system.link()
        found = link.run(link.client.jetstream().stream_info("ORDERS_2E1"))
        link.close()
        assert found.config.storage == storage


@pytest.mark.parametrize("name", ["redis-lists", "redis-streams"])
@pytest.mark.parametrize("quality", list(Quality)[:3])
def test_redis_forces_its_file_for_persistent_messages_only(name: str, quality: Quality, folder: Path) -> None:
    with make(name, folder, quality) as system, contextlib.closing(system.client()) as client:
        told = client.config_get("appendonly", "appendfsync", "save")
        kept = {"appendonly": "yes", "appendfsync": "always"} if quality.is_persistent else {"appendonly": "no"}
        assert {key: told[key] for key in kept} == kept
        assert told["save"] == ""


@pytest.mark.parametrize("name", ["redis-lists", "redis-streams"])
def test_what_a_receiver_of_redis_had_when_all_died_comes_again(name: str, folder: Path) -> None:
    with make(name, folder, Quality.RECOVERABLE) as system:
        system.create_queues([QUEUE])
        system.sender(QUEUE).send(numbered(4))
        lost = system.receiver(QUEUE)
        assert len(lost.receive(60)) >= 1
        killed_and_started_again(system)
        lost.close()
        receiver = system.receiver(QUEUE)
        again: list[bytes] = []
        while len(again) < 4 and (came := receiver.receive(60)):
            again += came
            receiver.commit()
        assert again == numbered(4)
        assert not receiver.receive(0.3)


def test_a_stream_of_redis_forgets_what_all_subscribers_are_done_with(folder: Path) -> None:
    with make("redis-streams", folder, Quality.RECOVERABLE) as system:
        quick, slow = system.subscriber("PRICES", 1), system.subscriber("PRICES", 2)
        publisher = system.publisher("PRICES")
        sent = numbered(1500)
        publisher.send(sent[:900])
        for subscriber, count in ((quick, 900), (slow, 500)):
            done = 0
            while done < count:
                done += len(subscriber.receive(60))
                subscriber.commit()
        publisher.send(sent[900:])
        # Trimmed in whole blocks of a hundred, so some of what is done with may stay; nothing else may go.
        assert 1000 <= system.depth("PRICES") <= 1100
        publisher.close()


def test_a_pipeline_of_redis_tells_of_a_refused_message_when_its_answer_is_read(folder: Path) -> None:
    with make("redis-lists", folder, Quality.EXPRESS) as system, contextlib.closing(system.client()) as client:
        client.set(QUEUE, "no list")
        sender = system.sender(QUEUE)
        sender.send(numbered(1))
        with pytest.raises(Exception, match="WRONGTYPE"):
            sender.flush()


def test_a_pipeline_of_postgresql_tells_of_a_refused_message_when_its_answer_is_read(folder: Path) -> None:
    with make("postgresql", folder, Quality.EXPRESS) as system, contextlib.closing(system.connect()) as connection:
        system.create_queues([QUEUE])
        sender = system.sender(QUEUE)
        connection.execute(f'DROP TABLE "{QUEUE}"')
        sender.send(numbered(1))
        with pytest.raises(SystemFailed, match="does not exist"):
            sender.flush()


@pytest.mark.parametrize("name", ["redis-lists", "redis-streams", "postgresql"])
def test_a_pipeline_reads_answers_before_too_many_are_under_way(name: str, folder: Path) -> None:
    with make(name, folder, Quality.EXPRESS) as system:
        system.create_queues([QUEUE])
        sender = system.sender(QUEUE)
        for body in numbered(1000):
            sender.send([body])
        assert 0 < sender._unanswered < 256
        sender.close()
        assert system.depth(QUEUE) == 1000


@pytest.mark.parametrize("quality", [Quality.EXPRESS, Quality.TRANSACTIONAL])
def test_redis_takes_a_unit_of_the_size_that_the_point_asks_for(quality: Quality, folder: Path) -> None:
    with make("redis-streams", folder, quality, {"batch": 3}) as system:
        system.create_queues([QUEUE])
        sender = system.sender(QUEUE)
        sender.send(numbered(10))
        sender.flush()
        assert len(system.receiver(QUEUE).receive(60)) == (10 if quality is Quality.EXPRESS else 3)


@pytest.mark.parametrize(("quality", "kind", "waits"), [(Quality.EXPRESS, "u", "off"), (Quality.GLOBAL, "p", "on")])
def test_postgresql_logs_and_forces_persistent_messages_only(
    quality: Quality, kind: str, waits: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make("postgresql", folder, quality) as system, contextlib.closing(system.connect()) as connection:
        from entrepot.workbench.systems import postgresql

        system.create_queues([QUEUE])
        persistence = "SELECT relpersistence::text FROM pg_class WHERE relname = %s"
        assert connection.execute(persistence, (QUEUE,)).fetchone() == (kind,)
        assert connection.execute("SHOW synchronous_commit").fetchone() == (waits,)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)

        sender = system.sender(QUEUE)
        sender.send(numbered(20))
        sender.flush()  # a pipeline's messages are there once their answers are
        monkeypatch.setattr(postgresql, "COUNTED_MAX", 10)
        assert system.depth(QUEUE) == 20
        if quality is Quality.GLOBAL:
            check_that_the_tally_and_the_messages_are_one_unit(system, connection)


def check_that_the_tally_and_the_messages_are_one_unit(system: Any, connection: Any) -> None:
    counted = "SELECT sum(received)::int FROM workbench_tally"
    receiver = system.receiver(QUEUE)
    assert receiver.receive(60) == numbered(1)
    receiver.commit()
    assert receiver.receive(60) == numbered(1, first=1)
    assert connection.execute(counted).fetchone() == (1,)
    receiver.close()
    assert connection.execute(counted).fetchone() == (1,)
    assert system.depth(QUEUE) == 19


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become another user")
def test_postgresql_says_which_folder_keeps_its_user_out(folder: Path) -> None:
    folder.parent.chmod(0o700)
    with pytest.raises(SystemFailed, match=f"cannot reach {folder}: {folder.parent} is closed"):
        make("postgresql", folder, Quality.EXPRESS).start()
