# SPDX-License-Identifier: Apache-2.0
"""The file of databases that the queue manager looks after."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from entrepot.engine.databases.registered import FILE, RegisteredResources
from entrepot.errors import ExtraMissing, FileNotPrivate, InvalidArgument, InvalidName, SecurityFileUnusable

URL = "postgresql+psycopg://ann:secret@db/shop"


@pytest.fixture
def resources(tmp_path: Path) -> RegisteredResources:
    """SHOP and BANK, on disk."""
    resources = RegisteredResources.load(tmp_path)
    resources.add("SHOP", URL)
    resources.add("BANK", "sqlite:////bank.db")
    resources.save()
    return resources


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    resources = RegisteredResources.load(tmp_path)
    assert resources.names() == ()
    assert not resources.refresh()


def test_what_was_saved_is_loaded(resources: RegisteredResources, tmp_path: Path) -> None:
    loaded = RegisteredResources.load(tmp_path)
    assert loaded.names() == resources.names() == ("BANK", "SHOP")
    assert loaded.url("SHOP") == URL
    assert loaded.shown("SHOP") == "postgresql://ann@db/shop"


def test_one_is_removed_and_the_others_stay(resources: RegisteredResources, tmp_path: Path) -> None:
    resources.remove("SHOP")
    with pytest.raises(InvalidArgument):
        resources.remove("SHOP")
    resources.save()
    assert RegisteredResources.load(tmp_path).names() == ("BANK",)


@pytest.mark.parametrize(
    ("name", "url", "refusal"),
    [
        ("not a name", URL, InvalidName),
        ("X", "no url, but a secret", InvalidArgument),
        ("X", 7, InvalidArgument),
        ("not a name", "no url", InvalidName),
    ],
)
def test_what_is_refused_changes_nothing(
    resources: RegisteredResources, name: str, url: str, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal) as refused:
        resources.add(name, url)
    assert "secret" not in str(refused.value)
    assert resources.names() == ("BANK", "SHOP")


def test_a_name_is_checked_where_sqlalchemy_is_missing(
    resources: RegisteredResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy.engine", None)
    with pytest.raises(InvalidName):
        resources.add("not a name", URL)
    with pytest.raises(ExtraMissing):
        resources.add("X", URL)


def test_a_change_of_the_file_is_seen_once(resources: RegisteredResources, tmp_path: Path) -> None:
    other = RegisteredResources.load(tmp_path)
    resources.add("THIRD", "sqlite:////third.db")
    resources.save()
    assert not resources.refresh(), "its own change is none"
    assert other.refresh()
    assert other.names() == ("BANK", "SHOP", "THIRD")
    assert not other.refresh()


def test_two_do_not_change_the_file_over_each_other(resources: RegisteredResources, tmp_path: Path) -> None:
    other = RegisteredResources.load(tmp_path)
    resources.remove("SHOP")
    resources.save()
    with pytest.raises(SecurityFileUnusable):
        other.save()


def test_a_file_that_is_gone_has_no_resources_any_more(resources: RegisteredResources, tmp_path: Path) -> None:
    (tmp_path / FILE).unlink()
    assert resources.refresh()
    assert resources.names() == ()


@pytest.mark.parametrize("content", ['{"SHOP": 7}', "[]", "secret", "\udcff"])
def test_a_file_of_something_else_is_refused(resources: RegisteredResources, tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(SecurityFileUnusable) as refused:
        resources.refresh()
    assert "secret" not in str(refused.value)
    assert resources.names() == (), "until it is mended"


def test_a_file_that_others_could_read_is_refused(resources: RegisteredResources, tmp_path: Path) -> None:
    (tmp_path / FILE).chmod(0o644)
    with pytest.raises(FileNotPrivate):
        RegisteredResources.load(tmp_path)
    (tmp_path / FILE).chmod(0o600)
    assert resources.names() == ("BANK", "SHOP")


def test_urls_leave_the_process_neither_shown_nor_pickled(resources: RegisteredResources) -> None:
    assert "secret" not in repr(resources)
    with pytest.raises(TypeError):
        pickle.dumps(resources)
