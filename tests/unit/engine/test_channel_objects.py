# SPDX-License-Identifier: Apache-2.0
"""Channels, listeners, rules and authorities as objects of a queue manager, and the system objects it begins with."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.engine.administration import ObjectAdministration
from entrepot.engine.definitions import (
    SYNCHRONIZATION_QUEUE,
    AuthorityRecord,
    Channel,
    Definition,
    LocalQueue,
    system_objects,
)
from entrepot.engine.folder import create
from entrepot.engine.media import recover_queue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.recovery_log.writer import RecoveryLog
from entrepot.errors import DiskFailed, DiskFull, InvalidName, LogFull, NoServer, ObjectExists, QueueNotFound
from entrepot.message import Message
from entrepot.server.mqsc import Answer, dump, require_ok, run_script
from hosted import Host

LINEAR = LogSettings(kind="linear", segment_bytes=256 * 1024)
SCRIPT = """
    DEFINE CHANNEL(TO.B) CHLTYPE(SDR) CONNAME('b(1414)') XMITQ(B) BATCHLIM(7)
    DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('app')
    DEFINE CHANNEL(GONE) CHLTYPE(RCVR)
    DEFINE LISTENER(L) PORT(0) TLS(YES)
    DEFINE LISTENER(GONE)
    SET AUTHREC PROFILE('A.**') OBJTYPE(QUEUE) PRINCIPAL('ann', 'gone') AUTHADD(PUT, GET)
    SET CHLAUTH('APP*') TYPE(ADDRESSMAP) ADDRESS('10.*') USERSRC(NOACCESS)
    SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('ann')
    SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.0.0.1', '10.0.0.2')
    ALTER CHANNEL(APP) MAXINST(5)
    ALTER QMGR SSLKEYR('/tls') CHCKCLNT(REQUIRED) CHLAUTH(DISABLED)
    DELETE CHANNEL(GONE)
    DELETE LISTENER(GONE)
    DELETE AUTHREC PROFILE('A.**') OBJTYPE(QUEUE) PRINCIPAL('gone')
    SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.0.0.1') ACTION(REMOVE)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create(tmp_path / "QM1", log=LINEAR)
    return tmp_path / "QM1"


@pytest.fixture
def host(path: Path) -> Iterator[Host]:
    with contextlib.closing(Host(path)) as host:
        yield host


def mqsc(host: Host, script: str) -> list[Answer]:
    answers = run_script(script, host)
    require_ok(answers)
    return answers


def known(host: Host) -> dict[tuple[str, str], Definition]:
    return {(definition.kind, definition.name): definition for definition in host.definitions()}


def bodies(host: Host, queue: str) -> list[bytes]:
    messages, _ = host.browse(queue, None, None, 100)
    return [message.body for message in messages]


# --- objects -----------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_channels_rules_and_authorities_survive(path: Path, how: str, checkpointed: bool) -> None:
    with contextlib.closing(Host(path)) as host:
        mqsc(host, SCRIPT)
        if checkpointed:
            host.checkpoint()
            mqsc(host, "DELETE LISTENER(L); DEFINE LISTENER(L) PORT(7)")
        before, attributes = known(host), host.manager_attributes()
        killed = path.with_name("KILLED")
        shutil.copytree(path, killed)
    names = {name for _, name in before}
    assert {"TO.B", "APP", "L", "QUEUE/A.**/ann/", "BLOCKADDR/*/10.0.0.2//"} <= names
    assert not [name for name in names if "gone" in name.lower() or "10.0.0.1/" in name]
    with contextlib.closing(Host(killed if how == "kill" else path)) as host:
        assert known(host) == before
        assert host.manager_attributes() == attributes
    assert (attributes.tls_folder, attributes.password_check) == ("/tls", "REQUIRED")


def test_dump_of_a_queue_manager_makes_an_equal_one(tmp_path: Path) -> None:
    dumped = [SCRIPT]
    for name in ("QM1", "QM2"):
        create(tmp_path / name, name="SAME")
        with contextlib.closing(Host(tmp_path / name)) as host:
            mqsc(host, dumped[-1])
            dumped.append(dump(host))
    assert dumped[1] == dumped[2]


def test_object_that_is_no_queue_exists_once(host: Host) -> None:
    host.define(LocalQueue(name="Q"), replace=False)
    host.define(Channel(name="Q"), replace=False)
    with pytest.raises(ObjectExists, match="a CHANNEL Q exists already"):
        host.define(Channel(name="Q"), replace=False)
    host.define(Channel(name="Q", user="ann"), replace=True)
    assert host.find("CHANNEL", "Q") == Channel(name="Q", user="ann")
    assert host.find("QLOCAL", "Q") == LocalQueue(name="Q")


def test_name_that_is_no_key_is_refused(host: Host) -> None:
    for definition in (Channel(name="A*"), AuthorityRecord(name="Q", profile="Q", principal="ann")):
        with pytest.raises(InvalidName):
            host.define(definition, replace=False)


def test_queue_on_its_way_out_stays_so_when_a_channel_of_its_name_goes(host: Host) -> None:
    manager = host.manager
    mqsc(host, "DEFINE QLOCAL(Q); DEFINE CHANNEL(Q) CHLTYPE(SVRCONN)")
    leaving = manager.administration.delete("QLOCAL", "Q", purge=False)
    manager.administration._deleted("CHANNEL", "Q")
    manager.administration._not_deleted("CHANNEL", "Q", DiskFull("/"))
    with pytest.raises(QueueNotFound):
        host.put("Q", Message(b"would be lost"))
    manager.force()
    assert leaving.done


# --- system objects ----------------------------------------------------------------------------


def test_queue_manager_has_its_system_objects_once_it_was_started(path: Path) -> None:
    expected = {(definition.kind, definition.name): definition for definition in system_objects()}
    for _ in range(2):
        with contextlib.closing(Host(path)) as host:
            assert known(host) == expected


@pytest.fixture
def old(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue manager of the release before channels, with a message on its queue."""
    with monkeypatch.context() as patched:
        patched.setattr(ObjectAdministration, "define_missing", lambda _: [])
        with contextlib.closing(Host(path)) as host:
            mqsc(host, "DEFINE QLOCAL(Q)")
            host.put("Q", Message(b"old"), persistent=True)
            assert host.find("QLOCAL", SYNCHRONIZATION_QUEUE) is None
    return path


def test_queue_manager_of_an_earlier_release_gets_what_it_lacks(old: Path) -> None:
    with contextlib.closing(Host(old)) as host:
        assert {(definition.kind, definition.name) for definition in system_objects()} <= known(host).keys()
        host.durably(
            lambda: host.manager.put(SYNCHRONIZATION_QUEUE, Message(b"new"), persistent=True, internal=True)[1]
        )
    # The log tells it too: rebuilt from its first day, the queue manager has the same queues under the same numbers.
    assert recover_queue(old, SYNCHRONIZATION_QUEUE) == 1
    with contextlib.closing(Host(old)) as host:
        assert (bodies(host, SYNCHRONIZATION_QUEUE), bodies(host, "Q")) == ([b"new"], [b"old"])


@pytest.mark.parametrize("full", [LogFull(1), DiskFull("/")])
def test_where_there_is_no_space_the_queue_manager_starts_without_them(
    old: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, full: Exception
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise full

    with monkeypatch.context() as patched:
        owner, name = (QueueManager, "require_room") if isinstance(full, LogFull) else (RecoveryLog, "take")
        patched.setattr(owner, name, refuse)
        host = Host(old)
    with contextlib.closing(host):
        assert host.find("QLOCAL", SYNCHRONIZATION_QUEUE) is None
        assert bodies(host, "Q") == [b"old"]
    assert f"system objects are missing: {type(full).__name__}" in caplog.text
    with contextlib.closing(Host(old)) as host:
        assert host.find("QLOCAL", SYNCHRONIZATION_QUEUE) is not None


def test_disk_that_fails_meanwhile_fails_the_start(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DiskFailed("/", "gone")

    with monkeypatch.context() as patched:
        patched.setattr(RecoveryLog, "take", fail)
        with pytest.raises(DiskFailed):
            Host(old)
    with contextlib.closing(Host(old)) as host:
        assert host.find("QLOCAL", SYNCHRONIZATION_QUEUE) is not None


def test_rule_that_was_taken_away_stays_away_and_a_queue_comes_back(path: Path) -> None:
    with contextlib.closing(Host(path)) as host:
        mqsc(
            host,
            """SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('*MQADMIN') ACTION(REMOVE)
               SET CHLAUTH('SYSTEM.*') TYPE(ADDRESSMAP) ACTION(REMOVEALL)
               DELETE CHANNEL(SYSTEM.DEF.SVRCONN)
               DELETE QLOCAL(SYSTEM.CHANNEL.INITQ)
               DELETE QLOCAL(SYSTEM.ADMIN.PERFM.EVENT)
               DEFINE QREMOTE(SYSTEM.ADMIN.PERFM.EVENT) RNAME(EVENTS) RQMNAME(CENTRE)""",
        )
    with contextlib.closing(Host(path)) as host:
        assert mqsc(host, "DISPLAY CHLAUTH(*)")[0].rows == ()
        assert host.find("CHANNEL", "SYSTEM.DEF.SVRCONN") is None
        assert host.find("QLOCAL", "SYSTEM.CHANNEL.INITQ") is not None
        assert host.find("QREMOTE", "SYSTEM.ADMIN.PERFM.EVENT") is not None


# --- what runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "START CHANNEL(C)",
        "STOP CHANNEL(C)",
        "START LISTENER(L)",
        "STOP LISTENER(L)",
        "STOP CONN(7)",
        "RESET CHANNEL(C) SEQNUM(1)",
        "RESOLVE CHANNEL(C) ACTION(BACKOUT)",
        "PING CHANNEL(C)",
    ],
)
def test_queue_manager_inside_of_a_program_runs_no_channels(host: Host, text: str) -> None:
    mqsc(host, "DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME('b') XMITQ(B); DEFINE LISTENER(L)")
    (answer,) = run_script(text, host)
    assert answer.error is not None
    assert isinstance(answer.error.__cause__, NoServer)
    assert f"{text} needs the queue manager to run as a server. Start it with entrepot qm start" in str(answer.error)


@pytest.mark.parametrize("noun", ["CHSTATUS", "LSSTATUS", "CONN"])
def test_nothing_runs_inside_of_a_program(host: Host, noun: str) -> None:
    assert mqsc(host, f"DISPLAY {noun}(*)")[0].lines == [f"No {noun} matches."]
