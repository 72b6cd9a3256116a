# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from entrepot.client.embedded import EmbeddedHost
from entrepot.engine.definitions import AuthorityRecord, authority_key
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import NotAuthorized
from entrepot.server.security.originators import RecordedOriginators
from entrepot.server.security.users import Users

OWN = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create(tmp_path / "QM1", log=LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4))
    return tmp_path / "QM1"


def grant(host: EmbeddedHost, profile: str, principal: str = "", group: str = "") -> None:
    key = authority_key("QUEUE", profile, principal, group)
    record = AuthorityRecord(name=key, profile=profile, principal=principal, group=group, authorities=("PUT",))
    host.define(record, replace=True)


def may(host: EmbeddedHost, user: str, queue: str = "Q") -> bool:
    try:
        host.manager.objects.originators.require_put(user, [queue])
    except NotAuthorized:
        return False
    return True


def test_a_program_that_opens_a_folder_measures_messages_by_their_users(folder: Path) -> None:
    host = EmbeddedHost(folder)
    assert isinstance(host.manager.objects.originators, RecordedOriginators)
    assert [may(host, user) for user in ("", "ann", OWN, "root")] == [False, False, True, True]
    grant(host, "Q", "ann")
    assert [may(host, "ann", queue) for queue in ("Q", "R", "SYSTEM.FLOW.X")] == [True, False, False]
    host.delete(AuthorityRecord.kind, authority_key("QUEUE", "Q", "ann", ""), purge=False)
    assert not may(host, "ann")
    host.close()


def test_groups_count_as_they_are_now(folder: Path) -> None:
    host = EmbeddedHost(folder)
    grant(host, "Q", group="clerks")
    for groups, expected in (([], False), (["clerks"], True), (["mqm"], True), ([], False)):
        users = Users.load(folder)
        users.add("ann", "a password", groups)
        users.save()
        assert may(host, "ann") == expected, groups
    assert not may(host, "ann", "R")
    host.close()


def test_a_user_with_a_password_is_not_taken_for_the_system_user_of_that_name(folder: Path) -> None:
    users = Users.load(folder)
    users.add(OWN, "a password")
    users.save()
    host = EmbeddedHost(folder)
    assert not may(host, OWN)
    host.close()


def test_a_file_of_users_that_cannot_be_used_leaves_users_without_groups(folder: Path) -> None:
    host = EmbeddedHost(folder)
    grant(host, "Q", group="clerks")
    users = Users.load(folder)
    users.add("ann", "a password", ["clerks"])
    users.save()
    assert may(host, "ann")
    (folder / "users.json").write_text("no users")
    assert not may(host, "ann")
    host.close()
