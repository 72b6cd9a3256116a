# SPDX-License-Identifier: Apache-2.0
"""The security checklist: what somebody may do once he is in."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from entrepot.client.blocking import Connection
from entrepot.errors import (
    EntrepotError,
    MqscError,
    NotAuthorized,
)
from entrepot.testing.servers import ServerThread

from .strangers import EVERYTHING, as_user, audited

# --- authority -----------------------------------------------------------------------------------

COMMANDS: list[tuple[str, str, str]] = [
    ("DISPLAY QLOCAL(Q)", "DSP", "PROFILE(Q) OBJTYPE(QUEUE)"),
    ("DISPLAY QSTATUS(Q)", "DSP", "PROFILE(Q) OBJTYPE(QUEUE)"),
    ("DEFINE QLOCAL(NEW)", "CRT", "PROFILE(NEW) OBJTYPE(QUEUE)"),
    ("ALTER QLOCAL(Q) DESCR('x')", "CHG", "PROFILE(Q) OBJTYPE(QUEUE)"),
    ("CLEAR QLOCAL(Q)", "CLR", "PROFILE(Q) OBJTYPE(QUEUE)"),
    ("DELETE QLOCAL(NEW)", "DLT", "PROFILE(NEW) OBJTYPE(QUEUE)"),
    ("STOP CHANNEL(OTHER)", "CTRL", "PROFILE(OTHER) OBJTYPE(CHANNEL)"),
    ("START CHANNEL(OTHER)", "CTRL", "PROFILE(OTHER) OBJTYPE(CHANNEL)"),
    ("ALTER CHANNEL(OTHER) CHLTYPE(SVRCONN) DESCR('x')", "CHG", "PROFILE(OTHER) OBJTYPE(CHANNEL)"),
    ("ALTER QMGR DESCR('x')", "CHG", "OBJTYPE(QMGR)"),
    ("DISPLAY QMGR", "DSP", "OBJTYPE(QMGR)"),
    ("DISPLAY CONN(*)", "DSP", "OBJTYPE(QMGR)"),
]


def may(connection: Connection, command: str) -> bool:
    """Whether a command was carried out, or showed anything."""
    try:
        answers = connection.mqsc(command)
    except MqscError as error:
        assert "authority" in str(error) or "there is no" in str(error), error
        return False
    return bool(answers[0].rows) or not command.startswith("DISPLAY")


def test_every_command_needs_its_authority(ann: Connection, admin: Connection) -> None:
    for command, word, profile in COMMANDS:
        record = f"SET AUTHREC {profile} PRINCIPAL('ann')"
        admin.mqsc(f"{record} AUTHADD(DSP)\n{record} AUTHRMV(ALLADM)")
        assert not may(ann, command), command
        admin.mqsc(f"{record} AUTHADD(ALLADM)")
        admin.mqsc(f"{record} AUTHRMV({word})")
        assert not may(ann, command), command  # everything else does not help
        admin.mqsc(f"{record} AUTHADD(DSP, {word})")
        assert may(ann, command), command


ADMINISTRATORS_ONLY = [
    "SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(ALL)",
    "SET AUTHREC OBJTYPE(QMGR) GROUP('clerks') AUTHADD(ALL)",
    "DELETE AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('ann')",
    "SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('nobody')",
    "ALTER QMGR CHLAUTH(DISABLED)",
    "ALTER QMGR CHCKCLNT(NONE)",
    "ALTER QMGR SSLKEYR('/tmp')",
    "ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('root')",
    "DEFINE CHANNEL(MINE) CHLTYPE(SVRCONN) MCAUSER('root')",
    "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('root') REPLACE",
    "ALTER CHANNEL(CERT) CHLTYPE(SVRCONN) SSLPEER('CN=*')",
    "ALTER CHANNEL(CERT) CHLTYPE(SVRCONN) SSLCIPH('')",
    "DEFINE LISTENER(MINE) PORT(0)",
    "ALTER LISTENER(TCP) IPADDR('0.0.0.0')",
    "START LISTENER(OPEN)",
    "STOP LISTENER(TCP)",
    "STOP CONN(1)",
    "DEFINE PROCESS(P) APPLICID('rm -rf /')",
    "DEFINE NAMELIST(N) NAMES(Q)",
]


@pytest.mark.parametrize("command", ADMINISTRATORS_ONLY)
def test_what_decides_who_gets_in_is_for_administrators_whatever_else_one_may(
    ann: Connection, admin: Connection, command: str
) -> None:
    for profile in ("PROFILE('**') OBJTYPE(QUEUE)", "PROFILE('**') OBJTYPE(CHANNEL)", "OBJTYPE(QMGR)"):
        admin.mqsc(f"SET AUTHREC {profile} PRINCIPAL('ann') AUTHADD(ALL)")
    before = admin.mqsc(EVERYTHING)
    with pytest.raises(MqscError, match=r"administrator|there is no"):
        ann.mqsc(command)
    assert [answer.rows for answer in admin.mqsc(EVERYTHING)] == [answer.rows for answer in before]


def test_one_sees_only_what_one_may(ann: Connection, admin: Connection) -> None:
    assert ann.mqsc("DISPLAY QUEUE(*)")[0].rows == ()
    admin.mqsc("SET AUTHREC PROFILE(R) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(DSP)")
    assert [row["QUEUE"] for row in ann.mqsc("DISPLAY QUEUE(*)")[0].rows] == ["R"]
    for command in ("DISPLAY CHANNEL(*)", "DISPLAY CHSTATUS(*)", "DISPLAY AUTHREC", "DISPLAY CHLAUTH(*)"):
        with contextlib.suppress(MqscError):
            assert ann.mqsc(command)[0].rows == (), command


def test_a_refused_command_does_not_tell_whether_there_is_such_a_queue(ann: Connection) -> None:
    said = []
    for name in ("Q", "NOSUCH"):
        for command in ("DEFINE QLOCAL({})", "ALTER QLOCAL({}) DESCR('x')", "DELETE QLOCAL({})", "CLEAR QLOCAL({})"):
            with pytest.raises(MqscError) as refused:
                ann.mqsc(command.format(name))
            said.append(str(refused.value).replace(name, "-"))
    assert said[:4] == said[4:]


def test_refused_commands_and_verbs_are_audited(ann: Connection, path: Path) -> None:
    before = len(audited(path))
    with pytest.raises(NotAuthorized):
        ann.put("PAYROLL", b"x")
    with pytest.raises(MqscError):
        ann.mqsc("DEFINE QLOCAL(MINE)")
    lines = [line for line in audited(path)[before:] if line["event"] == "refused"]
    assert [(line["user"], line["object"], line["reason"]) for line in lines] == [
        ("ann", "PAYROLL", "no PUT authority"),
        ("ann", "MINE", "no CRT authority"),
    ]


def test_commands_of_administrators_are_audited(admin: Connection, path: Path) -> None:
    before = len(audited(path))
    admin.mqsc("DEFINE QLOCAL(SEEN)\nDISPLAY QLOCAL(SEEN)\nDELETE QLOCAL(SEEN)")
    lines = [line for line in audited(path)[before:] if line["event"] == "command"]
    assert [line["object"] for line in lines] == ["DEFINE QLOCAL SEEN", "DELETE QLOCAL SEEN"]


# --- MANAGE --------------------------------------------------------------------------------------


def test_managing_is_for_administrators_and_backup_for_those_of_this_machine(
    server: ServerThread, ann: Connection, admin: Connection, tmp_path: Path
) -> None:
    for what in ("status", "checkpoint", "dump", "backup", "stop"):
        with pytest.raises(NotAuthorized):
            ann.administration.manage(what, destination=str(tmp_path / "stolen"))  # type: ignore[attr-defined]
    with as_user(server, "boss", "ADM") as boss:
        assert boss.administration.manage("status")["name"] == "QM1"  # type: ignore[attr-defined]
        with pytest.raises(NotAuthorized):
            boss.administration.manage("backup", destination=str(tmp_path / "stolen"))  # type: ignore[attr-defined]
    assert not (tmp_path / "stolen").exists()
    admin.administration.manage("backup", destination=str(tmp_path / "kept"))  # type: ignore[attr-defined]
    assert (tmp_path / "kept" / "manager.json").exists()


@pytest.mark.parametrize("destination", [None, "", "relative", "/a\0b", 5, ["/tmp"], "/proc/nowhere/x"])
def test_a_backup_to_nowhere_is_refused_and_the_connection_goes_on(admin: Connection, destination: Any) -> None:
    with pytest.raises(EntrepotError):
        admin.administration.manage("backup", destination=destination)  # type: ignore[attr-defined]
    assert admin.administration.manage("status")["state"] == "running"  # type: ignore[attr-defined]
    assert not Path("None").exists()
