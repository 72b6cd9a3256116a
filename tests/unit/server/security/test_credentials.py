# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from entrepot.errors import FileNotPrivate, InvalidArgument, InvalidName, SecurityFileUnusable
from entrepot.server.security.credentials import Credentials

from .conftest import CANARY


@pytest.fixture
def credentials(folder: Path) -> Credentials:
    credentials = Credentials.load(folder)
    credentials.set_password("QM1.TO.QM2", CANARY)
    credentials.save()
    return Credentials.load(folder)


def test_credentials_come_back_from_their_file(folder: Path, credentials: Credentials) -> None:
    assert credentials.channels() == ("QM1.TO.QM2",)
    assert credentials.password_for("QM1.TO.QM2") == CANARY
    assert credentials.password_for("QM1.TO.QM3") is None
    assert (folder / "credentials.json").stat().st_mode & 0o777 == 0o600


def test_refresh_sees_changes(folder: Path, credentials: Credentials) -> None:
    other = Credentials.load(folder)
    other.remove("QM1.TO.QM2")
    other.save()
    assert not other.refresh()
    assert credentials.refresh()
    assert credentials.channels() == ()


def test_a_file_open_to_others_gives_no_password(folder: Path, credentials: Credentials) -> None:
    (folder / "credentials.json").chmod(0o640)
    with pytest.raises(FileNotPrivate):
        credentials.refresh()
    assert credentials.password_for("QM1.TO.QM2") is None
    with pytest.raises(FileNotPrivate):
        Credentials.load(folder)


def test_a_symbolic_link_is_refused(folder: Path, credentials: Credentials) -> None:
    (folder / "credentials.json").rename(folder / "mine.json")
    (folder / "credentials.json").symlink_to("mine.json")
    with pytest.raises(FileNotPrivate, match="symbolic link"):
        Credentials.load(folder)


@pytest.mark.parametrize("password", ["", "  ", "x" * 2000])
def test_a_password_that_cannot_be_one_is_refused(credentials: Credentials, password: str) -> None:
    with pytest.raises(InvalidArgument):
        credentials.set_password("X", password)
    with pytest.raises(InvalidName):
        credentials.set_password("no name", "x")
    with pytest.raises(InvalidArgument):
        credentials.remove("X")


@pytest.mark.parametrize(
    "text", [f'{{"A": ["{CANARY}"]}}', f'{{"A": {CANARY}}}', f'["{CANARY}"]', f'{{"A": "{CANARY}"']
)
def test_an_error_about_the_file_does_not_quote_it(folder: Path, text: str) -> None:
    file = folder / "credentials.json"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(SecurityFileUnusable) as caught:
        Credentials.load(folder)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_no_repr_and_no_pickle_has_a_secret(credentials: Credentials) -> None:
    assert CANARY not in f"{credentials} {credentials!r}"
    for carry in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError) as caught:
            carry(credentials)  # type: ignore[operator]
        assert CANARY not in str(caught.value)
