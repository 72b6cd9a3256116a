# SPDX-License-Identifier: Apache-2.0
"""The security checklist: names, files, secrets and the audit log."""

from __future__ import annotations

import errno
import logging
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from entrepot import private_file
from entrepot.client.blocking import Connection, connect
from entrepot.client.embedded import EmbeddedHost
from entrepot.errors import (
    AuditDamaged,
    AuditFailed,
    AuthenticationFailed,
    EntrepotError,
    InvalidArgument,
    InvalidName,
    MqscError,
    QueueManagerInUse,
    UnsafeFolder,
)
from entrepot.server.security import audit_chain
from entrepot.server.security.audit import verify
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb
from entrepot.testing.servers import ServerThread
from unit.server.guests import PASSWORDS, put

from .strangers import EVERYTHING, Stranger, as_user, audited

# --- names and files -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a\0b", "a b", "ÖL", "x" * 49, "", "a\nb", "a;b", "'"])
def test_what_is_no_name_is_refused_everywhere(server: ServerThread, admin: Connection, name: str) -> None:
    with pytest.raises(MqscError):
        admin.mqsc(f"DEFINE QLOCAL('{name}')")
    for verb in (lambda: admin.put(name, b"x"), lambda: admin.get(name), lambda: list(admin.browse(name))):
        with pytest.raises((InvalidName, InvalidArgument)):
            verb()
    with Stranger(server) as stranger:  # without our client's own checks
        stranger.admitted(user="boss", channel="ADM")
        browse = verbs.BrowsePayload(name, None, 1)
        for asked, payload in ((Verb.PUT, put(name)), (Verb.GET, verbs.Get(name)), (Verb.BROWSE, browse)):
            stranger.say(asked, 5, payload)
            with pytest.raises((InvalidName, InvalidArgument)):
                stranger.answer()


def test_names_that_look_like_paths_are_names_and_nothing_more(admin: Connection, path: Path) -> None:
    around = sorted(each.name for each in path.parent.iterdir())
    names = ["../../etc/x", "a/..", "%2e", "/etc/passwd", "..", ".", "...."]
    for name in names:
        admin.mqsc(f"DEFINE QLOCAL('{name}')")
        admin.put(name, b"x" * 1000, persistent=True)
    admin.administration.manage("checkpoint")  # type: ignore[attr-defined]
    assert sorted(each.name for each in path.parent.iterdir()) == around
    found = {each.name for each in path.rglob("*")}
    assert not found & {"x", "passwd", "%2e", "etc"}
    for name in names:
        assert admin.get(name) is not None


def test_a_folder_belongs_to_one_process(server: ServerThread, path: Path) -> None:
    with pytest.raises(QueueManagerInUse), ServerThread(path):
        pass
    with pytest.raises(QueueManagerInUse):
        EmbeddedHost(path)
    with connect(server.unix_url) as still_there:
        still_there.put("R", b"x")
        assert still_there.get("R") is not None


def test_a_folder_or_file_that_others_could_change_does_not_start(founded: Path, tmp_path: Path) -> None:
    for number, spoil in enumerate(
        (
            lambda path: path.chmod(0o755),
            lambda path: path.chmod(0o770),
            lambda path: (path / "users.json").chmod(0o644),
            lambda path: _move_behind_link(path, "log"),
            lambda path: _move_behind_link(path, "users.json"),
        )
    ):
        path = tmp_path / f"QM{number}"
        shutil.copytree(founded, path)
        spoil(path)
        with pytest.raises((UnsafeFolder, EntrepotError)) as refused, ServerThread(path):
            pass
        assert refused.value.code in ("P03", "R14", UnsafeFolder.code), refused.value


def _move_behind_link(path: Path, name: str) -> None:
    elsewhere = path.parent / f"{path.name}-elsewhere"
    (path / name).rename(elsewhere)
    (path / name).symlink_to(elsewhere)


def test_what_the_server_makes_is_private(server: ServerThread, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((path / "socket").stat().st_mode) == 0o600
    for file in path.rglob("*"):
        if not file.is_relative_to(path / "tls"):
            assert not file.stat().st_mode & 0o077 or file.is_dir() or file.parent != path, file
    assert stat.S_IMODE((path / audit_chain.FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((path / "users.json").stat().st_mode) == 0o600


# --- secrets -------------------------------------------------------------------------------------


def test_no_password_is_anywhere_but_with_its_user(
    server: ServerThread, path: Path, caplog: pytest.LogCaptureFixture, admin: Connection
) -> None:
    canary = "canary-Kx7-bird"
    told: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for said in ({"user": "ann", "password": canary}, {"user": "zoe", "password": canary, "channel": "NOSUCH"}):
            with Stranger(server) as stranger:
                stranger.hello(**said)  # type: ignore[arg-type]
                with pytest.raises(AuthenticationFailed) as refused:
                    stranger.answer()
                told.append(f"{refused.value!r} {refused.value}")
        with Stranger(server) as misshapen:
            misshapen.say(Verb.HELLO, 1, verbs.Hello("ENTREPOT", 9, "APP", "ann", canary))
            with pytest.raises(EntrepotError) as refused:
                misshapen.answer()
            told.append(f"{refused.value!r} {refused.value}")
        with pytest.raises(EntrepotError) as failed:
            connect(f"mq://ann:{canary}@127.0.0.1:1/QM1?channel=APP", reconnect_s=0.0)
        told.append(f"{failed.value!r} {failed.value}")
        connection = as_user(server, "ann")
        told.append(f"{connection!r} {connection.calls.line!r} {vars(connection.calls.line)}")
        connection.close()
    told += [str(answer) for answer in admin.mqsc(f"{EVERYTHING}\nDISPLAY CONN(*)\nDISPLAY CHSTATUS(*)")]
    told.append(str(admin.administration.manage("dump")))  # type: ignore[attr-defined]
    told.append(caplog.text)
    for secret in (canary, *PASSWORDS.values()):
        assert not [text for text in told if secret in text]
        for file in path.rglob("*"):
            if file.is_file():
                assert secret.encode() not in file.read_bytes(), file


# --- audit ---------------------------------------------------------------------------------------


def test_what_strangers_say_cannot_forge_a_line(server: ServerThread, path: Path) -> None:
    with Stranger(server) as stranger:
        stranger.hello(user='ann"}\n{"n":1,"event":"connected","user":"root', password="x")
        with pytest.raises(AuthenticationFailed):
            stranger.answer()
    lines = audited(path)
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert (path / audit_chain.FILE).read_bytes().isascii()


def test_one_altered_byte_of_the_audit_log_is_found(founded: Path, tmp_path: Path) -> None:
    path = tmp_path / "QM1"
    shutil.copytree(founded, path)
    with ServerThread(path) as server, connect(server.unix_url) as admin:
        admin.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\nDELETE QLOCAL(A)")
    assert verify(path) == len(audited(path)) > 4
    file = path / audit_chain.FILE
    written = file.read_bytes()
    places = [written.index(b"DEFINE"), 5, len(written) - 3, *range(0, len(written), 97)]
    for place in places:
        file.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        with pytest.raises(AuditDamaged):
            verify(path)
    lines = written.splitlines(keepends=True)
    for forged in (lines[:-1], lines[1:], [*lines, lines[-1]], [lines[1], lines[0], *lines[2:]]):
        file.write_bytes(b"".join(forged))
        with pytest.raises(AuditDamaged):
            verify(path)
    file.write_bytes(written)
    verify(path)


def test_without_audit_nobody_administers_and_messages_go_on(
    founded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "QM1"
    shutil.copytree(founded, path)
    with ServerThread(path) as server:
        with connect(server.unix_url) as admin:
            with monkeypatch.context() as full:

                def no_space(*_: Any) -> None:
                    raise OSError(errno.ENOSPC, "No space left on device")

                full.setattr(private_file, "write_all", no_space)
                for command in ("DEFINE QLOCAL(NEW)", "ALTER QMGR DESCR('x')", "DELETE QLOCAL(Q)", "CLEAR QLOCAL(Q)"):
                    with pytest.raises(MqscError, match="audit"):
                        admin.mqsc(command)
                with pytest.raises(AuditFailed):
                    admin.administration.manage("backup", destination=str(tmp_path / "backup"))  # type: ignore[attr-defined]
                assert not (tmp_path / "backup").exists()
                assert admin.mqsc("DISPLAY QLOCAL(Q)")[0].rows
                admin.put("Q", b"x", persistent=True)
                assert admin.get("Q") is not None
                for _ in range(3):
                    with connect(server.unix_url) as another:  # not written down, but not kept out
                        another.put("Q", b"x")
                assert caplog.text.count("AuditFailed") == 1, "the server's log is told once"
            admin.mqsc("DEFINE QLOCAL(NEW)")
        assert verify(path) > 0


def test_a_stop_is_written_down_and_a_full_disk_does_not_prevent_it(
    founded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "QM1"
    shutil.copytree(founded, path)
    with ServerThread(path) as server:
        with connect(server.unix_url, reconnect_s=0.0) as admin:
            admin.administration.manage("stop")  # type: ignore[attr-defined]
        server._thread.join(60)
        assert not server._thread.is_alive()
    events = [(line["event"], line.get("object", "")) for line in audited(path)]
    assert ("command", "STOP QMGR QM1") in events
    assert events[-1][0] == "stopped"
