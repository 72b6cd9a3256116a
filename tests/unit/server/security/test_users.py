# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import shutil
import threading
import traceback
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import EntrepotError, FileNotPrivate, InvalidArgument, SecurityFileUnusable
from entrepot.server.security import passwords
from entrepot.server.security import users as users_module
from entrepot.server.security.users import Users

from .conftest import CANARY

Hashings = list[tuple[int, int, int]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file made once, since each password takes its time."""
    folder = tmp_path_factory.mktemp("made")
    users = Users.load(folder)
    users.add("alice", CANARY, ["mqm", "ops"])
    users.add("bob", "another one")
    users.save()
    return folder / "users.json"


@pytest.fixture
def users(folder: Path, made: Path) -> Users:
    shutil.copy(made, folder)
    return Users.load(folder)


def test_no_file_means_no_users(folder: Path) -> None:
    users = Users.load(folder)
    assert users.names() == ()
    assert not users.verify("alice", "x")


def test_users_come_back_from_their_file(users: Users) -> None:
    assert users.names() == ("alice", "bob")
    assert users.groups_of("alice") == {"mqm", "ops"}
    assert users.groups_of("bob") == users.groups_of("nobody") == frozenset()
    assert [users.knows(name) for name in ("alice", "bob", "nobody", "")] == [True, True, False, False]
    assert users.verify("alice", CANARY)
    assert users.verify("bob", "another one")
    assert not users.verify("bob", CANARY)


def test_administrators_are_the_group_mqm(users: Users) -> None:
    assert users.administrators() == {"alice"}
    assert users.administrators() == {"alice"}


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong"),
        ("alice", ""),
        ("alice", "   "),
        ("nobody", CANARY),
        ("nobody", ""),
        ("", ""),
        ("Alice", CANARY),
        ("alice\n", CANARY),
        ("alice", CANARY + "\0"),
        ("alice", CANARY.upper()),
        ("alice", "x" * 5000),
        ("\ud800", "\udfff"),
    ],
)
def test_every_wrong_answer_costs_the_same_work(users: Users, hashings: Hashings, name: str, password: str) -> None:
    assert not users.verify(name, password)
    assert hashings == [(2**14, 8, 1)]


def test_a_right_password_is_hashed_once_a_start(users: Users, hashings: Hashings) -> None:
    assert not users.is_proven("alice", CANARY)
    for _ in range(100):
        assert users.verify("alice", CANARY)
    assert len(hashings) == 1
    assert users.is_proven("alice", CANARY)
    assert not users.is_proven("alice", "wrong")


def test_a_proof_is_forgotten_with_the_password_and_with_the_user(users: Users) -> None:
    assert users.verify("alice", CANARY)
    users.add("alice", "another")
    assert not users.is_proven("alice", CANARY)
    users.add("alice", CANARY)
    assert not users.is_proven("alice", CANARY), "the same password, stored anew"
    assert users.verify("alice", CANARY)
    users.remove("alice")
    assert not users.is_proven("alice", CANARY)
    assert users._proofs._digests == {}


def test_a_wrong_password_is_hashed_each_time(users: Users, hashings: Hashings) -> None:
    assert users.verify("alice", CANARY)
    for _ in range(3):
        assert not users.verify("alice", "wrong")
    assert len(hashings) == 4


@settings(max_examples=200)
@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), min_size=2, max_size=2, unique=True))
def test_no_two_pairs_of_name_and_password_are_taken_for_each_other(pairs: list[tuple[str, str]]) -> None:
    proofs = users_module._Proofs()
    stored = passwords.dummy()
    proofs.add(*pairs[0], stored)
    assert proofs.has(*pairs[0], stored)
    assert not proofs.has(*pairs[1], stored)


def test_name_password_and_hash_are_told_apart() -> None:
    proofs = users_module._Proofs()
    stored = passwords.dummy()
    proofs.add("ab", "c", stored)
    assert proofs.has("ab", "c", stored)
    assert not proofs.has("a", "bc", stored)
    assert not proofs.has("ab", "c", passwords.dummy())


def test_proofs_outlive_a_file_that_was_only_touched(folder: Path, users: Users) -> None:
    assert users.verify("alice", CANARY)
    os.utime(folder / "users.json")
    assert users.refresh()
    assert users.is_proven("alice", CANARY)


def test_neither_an_unknown_user_nor_a_blank_password_is_right_whatever_the_hash(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "matches", lambda password, stored: True)
    assert users.verify("alice", "x")
    assert not users.verify("nobody", "x")
    assert not users.verify("alice", " ")


def test_proofs_are_kept_under_a_key_of_this_process(users: Users) -> None:
    users.verify("alice", CANARY)
    other = users_module._Proofs()
    (digest,) = users._proofs._digests.values()
    assert digest != other._digest("alice", CANARY, users._users["alice"].password)
    assert CANARY.encode() not in digest


# --- changes beside a running queue manager --------------------------------------------------------


def test_refresh_sees_what_another_process_changed(folder: Path, users: Users) -> None:
    assert not users.refresh()
    assert users.verify("alice", CANARY)
    other = Users.load(folder)
    other.add("alice", "changed")
    other.remove("bob")
    other.save()
    assert users.verify("alice", CANARY), "not yet looked"
    assert users.refresh()
    assert not users.refresh()
    assert users.names() == ("alice",)
    assert not users.verify("alice", CANARY)
    assert users.verify("alice", "changed")


def test_a_file_that_cannot_be_used_lets_nobody_in_until_it_is_mended(folder: Path, users: Users) -> None:
    assert users.verify("alice", CANARY)
    (folder / "users.json").chmod(0o644)
    for _ in range(2):
        with pytest.raises(FileNotPrivate):
            users.refresh()
    assert users.names() == ()
    assert not users.verify("alice", CANARY)
    (folder / "users.json").chmod(0o600)
    assert users.refresh()
    assert users.verify("alice", CANARY)


def test_a_removed_file_removes_the_users(folder: Path, users: Users) -> None:
    (folder / "users.json").unlink()
    assert users.refresh()
    assert users.names() == ()


def test_save_does_not_undo_what_another_process_saved(folder: Path, users: Users) -> None:
    other = Users.load(folder)
    users.add("carol", "one")
    other.add("dave", "two")
    users.save()
    with pytest.raises(SecurityFileUnusable, match="meanwhile"):
        other.save()
    assert Users.load(folder).names() == ("alice", "bob", "carol")


def test_threads_verify_while_others_change(folder: Path, users: Users) -> None:
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(5):
                assert users.verify("bob", "another one")
                assert not users.verify("nobody", "x")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(5):
        other = Users.load(folder)
        other.add(f"user{number}", "x")
        other.save()
        users.refresh()
    for thread in threads:
        thread.join()
    assert failures == []


# --- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a b", "a\n", "é", "-a", ".a", "@x", "a" * 65, "a/b", "a\0", "*", "a:b"])
def test_a_name_that_cannot_be_one_is_refused(users: Users, name: str) -> None:
    with pytest.raises(InvalidArgument):
        users.add(name, "x")
    with pytest.raises(InvalidArgument):
        users.add("carol", "x", [name])
    assert users.names() == ("alice", "bob")


@pytest.mark.parametrize("password", ["", " ", "\t\n", "x" * 1025, "\ud800", "x\0"])
def test_a_password_that_cannot_be_one_is_refused(users: Users, password: str) -> None:
    with pytest.raises(InvalidArgument):
        users.add("carol", password)
    assert "carol" not in users.names()


def test_an_unknown_user_cannot_be_removed(users: Users) -> None:
    with pytest.raises(InvalidArgument, match="there is no user 'carol'"):
        users.remove("carol")


def test_the_file_has_salts_and_parameters_and_no_password(folder: Path, users: Users) -> None:
    users.add("bob", CANARY)
    users.save()
    text = (folder / "users.json").read_text()
    assert CANARY not in text
    stored = json.loads(text)["users"]
    hashes = [stored[name]["password"] for name in ("alice", "bob")]
    assert hashes[0]["salt"] != hashes[1]["salt"], "the same password, another salt"
    assert hashes[0]["hash"] != hashes[1]["hash"]
    assert all((each["scheme"], each["n"], each["r"], each["p"]) == ("scrypt", 2**14, 8, 1) for each in hashes)


@pytest.mark.parametrize(
    "change",
    [
        {"scheme": "plain"},
        {"n": 2**14 + 1},
        {"n": 2**30},
        {"n": 1},
        {"r": 0},
        {"r": 1000},
        {"p": 0},
        {"p": 100},
        {"salt": "AAAA"},
        {"hash": ""},
        {"hash": "not base64!"},
    ],
)
def test_a_hash_that_cannot_be_one_is_refused(folder: Path, users: Users, change: dict[str, object]) -> None:
    file = folder / "users.json"
    content = json.loads(file.read_text())
    content["users"]["alice"]["password"].update(change)
    file.write_text(json.dumps(content))
    with pytest.raises(SecurityFileUnusable):
        Users.load(folder)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "nonsense", '{"format": 2, "users": {}}', '{"format": 1, "users": {"a b": 1}}', "\xff\0"],
)
def test_a_file_that_is_none_is_refused(folder: Path, text: str) -> None:
    file = folder / "users.json"
    file.write_text(text, encoding="latin-1")
    file.chmod(0o600)
    with pytest.raises(SecurityFileUnusable, match=r"users\.json"):
        Users.load(folder)


def test_a_symbolic_link_is_refused(folder: Path, users: Users) -> None:
    os.rename(folder / "users.json", folder / "mine.json")
    (folder / "users.json").symlink_to("mine.json")
    with pytest.raises(FileNotPrivate, match="symbolic link"):
        Users.load(folder)


def test_stronger_parameters_of_a_later_version_are_used(folder: Path, users: Users, hashings: Hashings) -> None:
    file = folder / "users.json"
    content = json.loads(file.read_text())
    content["users"]["alice"]["password"]["n"] = 2**15
    file.write_text(json.dumps(content))
    Users.load(folder).verify("alice", CANARY)
    assert hashings == [(2**15, 8, 1)]


# --- secrets ------------------------------------------------------------------------------------


def test_no_repr_and_no_error_has_a_secret(folder: Path, users: Users) -> None:
    user = users._users["alice"]
    shown = [repr(users), str(users), repr(user), repr(user.password), f"{vars(users)}"]
    for wrong in ("", "a b"):
        try:
            users.add(wrong, CANARY)
        except EntrepotError as error:
            shown += [str(error), repr(error), *traceback.format_exception(error)]
    try:
        users.add("carol", CANARY * 100)
    except EntrepotError as error:
        shown += [str(error), repr(error)]
    assert [text for text in shown if CANARY in text or user.password.hash.hex() in text] == []
    assert len(shown) > 8
