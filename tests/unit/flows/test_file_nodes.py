# SPDX-License-Identifier: Apache-2.0
"""FileInput and FileOutput, with real files."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from entrepot import limits
from entrepot.errors import (
    FileExistsAlready,
    FileNameUnsafe,
    FileWriteFailed,
    FolderUnusable,
    NowhereToSetAside,
    RecordTooLong,
    RecordWrongLength,
)
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.file_source import FileSource
from entrepot.flows.file_spools import Spools, Task
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.nodes import find_type
from entrepot.flows.nodes.file_output import LEDGER as WRITTEN
from entrepot.flows.nodes.file_output import LeftoverSource
from entrepot.flows.records import FileRecord, RecordReader, Splitting
from entrepot.message import Message
from entrepot.models.tree import Assembly, Root
from folding import for_each

LINES = Splitting("delimited")
Change = Callable[[Assembly, Any], Any]

# --- records ----------------------------------------------------------------------------------------


def records(content: bytes, splitting: Splitting) -> list[FileRecord]:
    reader = RecordReader(BytesIO(content), "f", len(content), splitting)
    found = []
    while (record := reader.next()) is not None:
        found.append(record)
    return found


def bodies(content: bytes, splitting: Splitting) -> list[bytes]:
    return [record.body for record in records(content, splitting)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\n\n", [b"a", b"b", b""]),
        (b"\n", [b""]),
        (b"", [b""]),
        (b"a\rb", [b"a\rb"]),
    ],
)
def test_line_ends_end_records(content: bytes, expected: list[bytes]) -> None:
    assert bodies(content, LINES) == expected


@pytest.mark.parametrize(("content", "expected"), [(b"a;;b;;", [b"a", b"b", b""]), (b"a", [b"a"]), (b"", [b""])])
def test_infix_delimiters_stand_between_records(content: bytes, expected: list[bytes]) -> None:
    assert bodies(content, Splitting("delimited", b";;", True)) == expected


def test_fixed_lengths_may_end_with_a_shorter_record() -> None:
    assert bodies(b"aaabbbc", Splitting("fixedLength", length=3)) == [b"aaa", b"bbb", b"c"]


def test_the_last_record_is_known_and_delimiters_are_told() -> None:
    found = records(b"a\r\nb\nc", LINES)
    assert [(record.number, record.offset, record.end, record.delimiter) for record in found] == [
        (1, 0, 3, None),
        (2, 3, 5, b"\r\n"),
        (3, 5, 6, b"\n"),
    ]
    assert [record.is_last for record in found] == [False, False, True]
    assert [record.is_last for record in records(b"a;b;", Splitting("delimited", b";", True))] == [False, False, True]


@pytest.mark.parametrize(
    "splitting", [LINES, Splitting("delimited", b"\r\n", True), Splitting("fixedLength", length=7)]
)
def test_a_reader_goes_on_from_every_record(splitting: Splitting) -> None:
    content = b"one\r\ntwo\n\r\nthree" * 5 + b"\r\n"
    found = records(content, splitting)
    for start in found:
        reader = RecordReader(BytesIO(content), "f", len(content), splitting)
        reader.seek(start.number, start.offset)
        again = []
        while (record := reader.next()) is not None:
            again.append(record)
        assert again == found[start.number - 1 :]


def test_delimiters_are_found_where_pieces_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.flows.records._PIECE_BYTES", 3)
    content = b"ab<>cdefghijklm<><>n<>"
    assert bodies(content, Splitting("delimited", b"<>")) == [b"ab", b"cdefghijklm", b"", b"n"]


@pytest.mark.parametrize("splitting", [Splitting(), LINES, Splitting("fixedLength", length=100)])
def test_a_record_longer_than_a_message_is_told(splitting: Splitting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 10)
    with pytest.raises(RecordTooLong, match="record 1 at offset 0"):
        records(b"x" * 200, splitting)


# --- FileInput --------------------------------------------------------------------------------------


class Reader:
    """A flow that reads files and puts their records on a queue; what a runner does, step by step."""

    def __init__(
        self, folder: Path, change: Change | None = None, *, stage: MemoryWorld | None = None, **said: Any
    ) -> None:
        terminals = said.pop("terminals", ())
        flow = FlowDefinition("files")
        flow.node("FileInput", "In", **{"directory": str(folder), "polling_s": 0, "records": "delimited", **said})
        flow.node("Python", "Look", function=change or (lambda assembly, send: assembly))
        flow.node("MQOutput", "Out", queue="OUT")
        flow.link("In", "Look")
        flow.link("Look", "Out")
        for terminal in terminals:
            flow.node("MQOutput", terminal, queue=terminal)
            flow.link("In", terminal, terminal=terminal)
        self.kernel = Kernel(flow)
        self.point = self.kernel.points[0]
        assert self.point.source is not None
        source = self.point.source()
        assert isinstance(source, FileSource)
        self.source = source
        self.stage = stage or MemoryWorld()

    def step(self, count: int = 1, *, commit: bool = True) -> int:
        """Deal with so many messages in one unit of work; how many there were."""
        stores, queues = dict(self.stage.stores), {name: list(of) for name, of in self.stage.queues.items()}
        done = 0
        while done < count and (message := self.source.next(0)) is not None:
            self.stage.feed(self.kernel, self.point, message)
            done += 1
        if commit:
            self.source.committed()
        else:
            self.stage.stores = stores
            self.stage.queues.clear()
            self.stage.queues.update(queues)
            self.source.backed_out()
        return done

    def run(self) -> None:
        while self.step(100):
            pass

    def crash(self) -> None:
        """The process ends, without a word to anybody."""
        for claim in (*self.source._claims, *self.source._unmoved):
            claim.file.close()

    def put(self, queue: str = "OUT") -> list[bytes]:
        return [message.body for message in self.stage.queues[queue]]


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def write(folder: Path, name: str, content: bytes, *, age_s: float = 0) -> Path:
    path = folder / name
    path.write_bytes(content)
    if age_s:
        moment = path.stat().st_mtime - age_s
        os.utime(path, (moment, moment))
    return path


def test_records_become_messages_and_the_file_is_deleted(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", b"one\ntwo\nthree\n")
    reader = Reader(tmp_path)
    reader.run()
    assert reader.put() == [b"one", b"two", b"three"]
    assert files_in(tmp_path) == []
    assert reader.stage.stores == {}  # the ledger forgets what is gone
    assert all(message.persistent for message in reader.stage.queues["OUT"])


def test_whole_files_come_oldest_first(tmp_path: Path) -> None:
    write(tmp_path, "c", b"3", age_s=1)
    write(tmp_path, "b", b"1", age_s=3)
    write(tmp_path, "a", b"2", age_s=2)
    reader = Reader(tmp_path, records="wholeFile")
    reader.run()
    assert reader.put() == [b"1", b"2", b"3"]


def test_patterns_choose_and_exclude(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "b.txt", ".c.csv", "skip.csv"):
        write(tmp_path, name, name.encode())
    (tmp_path / "d.csv").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "b.txt")
    reader = Reader(tmp_path, pattern="*.csv", exclude="skip*", records="wholeFile")
    reader.run()
    assert sorted(reader.put()) == [b"a.csv", b"b.csv"]
    assert files_in(tmp_path) == [".c.csv", "b.txt", "link.csv", "skip.csv"]


def test_the_local_environment_tells_of_the_file(tmp_path: Path) -> None:
    seen: list[Assembly] = []

    def look(assembly: Assembly, send: Any) -> Assembly:
        seen.append(assembly)
        return assembly

    write(tmp_path, "orders-7.csv", b"one\r\n\r\n")
    Reader(tmp_path, look, pattern="orders-*.csv").run()
    told = [{child.key: child.value for child in each.local_environment.first("File").children} for each in seen]  # type: ignore[union-attr]
    assert [(each["Name"], each["Record"], each["Offset"], each["Delimiter"], each["IsEmpty"]) for each in told] == [
        ("orders-7.csv", 1, 0, None, False),
        ("orders-7.csv", 2, 5, "\r\n", True),
    ]
    assert told[0]["Directory"] == str(tmp_path) and told[0]["Size"] == 7
    assert seen[0].local_environment.get("Wildcard", "WildcardMatch") == "7"
    assert [child.key for child in seen[0].root.children] == ["Properties", "BLOB"]


def test_an_empty_file_is_an_empty_message(tmp_path: Path) -> None:
    write(tmp_path, "a", b"")
    reader = Reader(tmp_path)
    reader.run()
    assert reader.put() == [b""]


def test_the_end_of_data_is_a_message_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "a", b"one\ntwo\n")
    reader = Reader(tmp_path, terminals=("endOfData",))
    assert reader.step(2) == 2
    assert reader.put("endOfData") == [] and len(files_in(tmp_path)) == 1
    reader.run()
    assert reader.put("endOfData") == [b""]
    assert files_in(tmp_path) == [] and reader.stage.stores == {}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"action": "archive"}, r"mqsiarchive/a"),
        ({"action": "archiveWithTimestamp"}, r"mqsiarchive/\d{8}_\d{6}_\d{6}_a"),
        ({"action": "delete"}, ""),
    ],
)
def test_what_becomes_of_a_file_that_was_read(tmp_path: Path, said: dict[str, Any], expected: str) -> None:
    write(tmp_path, "a", b"one")
    Reader(tmp_path, **said).run()
    assert re.fullmatch(expected, "".join(files_in(tmp_path)))


def test_an_archived_file_replaces_another_only_when_told_to(tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        write(tmp_path, "a", content)
        Reader(tmp_path, action="archive").run()
    assert len(files_in(tmp_path)) == 2
    write(tmp_path, "a", b"three")
    Reader(tmp_path, action="archive", replace_archived=True).run()
    assert len(files_in(tmp_path)) == 2
    assert (tmp_path / "mqsiarchive" / "a").read_bytes() == b"three"


def test_a_unit_that_is_backed_out_gets_the_same_records_again(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n3\n")
    write(tmp_path, "b", b"4\n5\n", age_s=-1)
    reader = Reader(tmp_path)
    reader.step(1)
    tried = reader.source.next(0)
    assert tried is not None
    reader.source.backed_out()
    again = reader.source.next(0)
    assert again is not None and again.message_id == tried.message_id  # so the runner knows how often it was tried
    reader.source.backed_out()
    reader.step(4, commit=False)
    assert reader.put() == [b"1"]
    reader.run()
    assert reader.put() == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("dealt_with", range(7))
def test_each_record_comes_once_whenever_the_process_dies_after_a_commit(tmp_path: Path, dealt_with: int) -> None:
    write(tmp_path, "a", b"1\n2\n3\n")
    write(tmp_path, "b", b"4\n5\n6", age_s=-1)
    first = Reader(tmp_path)
    # The queue manager has committed, and the process did not live to hear it.
    for _ in range(dealt_with):
        message = first.source.next(0)
        assert message is not None
        first.stage.feed(first.kernel, first.point, message)
    first.crash()
    second = Reader(tmp_path, stage=first.stage)
    second.run()
    assert second.put() == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert files_in(tmp_path) == [] and second.stage.stores == {}


def test_a_long_file_is_not_read_from_its_beginning_again(tmp_path: Path) -> None:
    write(tmp_path, "a", b"".join(b"%d\n" % number for number in range(1000)))
    first = Reader(tmp_path)
    first.step(900)
    first.crash()
    second = Reader(tmp_path, stage=first.stage)
    assert second.step(1000) == 101  # one to learn from the ledger where to go on
    assert second.put() == [b"%d" % number for number in range(1000)]


def test_two_instances_read_each_file_once(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, f"{number}", b"%d" % number)
    stage = MemoryWorld()
    one, other = Reader(tmp_path, stage=stage), Reader(tmp_path, stage=stage)
    while one.step() + other.step():
        pass
    assert sorted(one.put()) == [b"%d" % number for number in range(6)]


def test_a_file_that_somebody_has_locked_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a", b"one")
    reader = Reader(tmp_path)
    with path.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert reader.step() == 0
    assert reader.step() == 1


def test_a_file_that_still_changes_can_be_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "new", b"new")
    write(tmp_path, "old", b"old", age_s=100)
    reader = Reader(tmp_path, quiet_s=60)
    reader.run()
    assert reader.put() == [b"old"]


def test_a_new_file_of_the_same_name_is_another_file(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n")
    reader = Reader(tmp_path)
    reader.step(1)
    write(tmp_path, "a", b"3\n4\n")
    reader.run()
    assert reader.put() == [b"1", b"2", b"3", b"4"]


def _fail_at_two(assembly: Assembly, send: Any) -> Assembly:
    if assembly.root.children[-1].render() == b"2":  # type: ignore[attr-defined]
        raise RuntimeError("not this one")
    return assembly


def test_a_file_with_a_record_that_fails_goes_to_the_backout_folder(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n3\n")
    write(tmp_path, "b", b"4\n", age_s=-1)
    reader = Reader(tmp_path, _fail_at_two)
    reader.run()
    assert reader.put() == [b"1", b"4"]  # its neighbours go on
    assert files_in(tmp_path) == ["mqsibackout/a"]
    assert (tmp_path / "mqsibackout" / "a").read_bytes() == b"1\n2\n3\n"
    assert reader.stage.stores == {}


def test_a_failure_terminal_takes_the_record_and_the_file_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n3\n")
    reader = Reader(tmp_path, _fail_at_two, terminals=("failure",))
    reader.run()
    assert (reader.put(), reader.put("failure")) == ([b"1", b"3"], [b"2"])
    assert files_in(tmp_path) == []


def test_a_file_that_has_failed_is_moved_after_a_crash_too(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n3\n")
    first = Reader(tmp_path, _fail_at_two)
    for _ in range(2):
        message = first.source.next(0)
        assert message is not None
        first.stage.feed(first.kernel, first.point, message)
    first.crash()
    second = Reader(tmp_path, stage=first.stage)  # it would not fail this time
    second.run()
    assert second.put() == [b"1"]
    assert files_in(tmp_path) == ["mqsibackout/a"]


def test_a_file_whose_unit_with_the_failure_is_backed_out_is_read_on(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n3\n")
    moods = iter([_fail_at_two])
    reader = Reader(tmp_path, lambda assembly, send: next(moods, lambda same, _: same)(assembly, send))
    reader.step(1, commit=False)
    reader.run()
    assert reader.put() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("terminals", [(), ("failure",)])
def test_a_record_that_is_too_long_ends_the_file(
    tmp_path: Path, terminals: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 10)
    write(tmp_path, "a", b"1\n" + b"x" * 300_000 + b"\n2\n")
    reader = Reader(tmp_path, terminals=terminals)
    reader.run()
    assert reader.put() == [b"1"] and len(reader.put("failure")) == len(terminals)
    assert files_in(tmp_path) == ["mqsibackout/a"]


def test_a_body_that_cannot_be_read_fails_like_any_other(tmp_path: Path) -> None:
    def read(assembly: Assembly, send: Any) -> Assembly:
        assembly.root.get("XMLNSC", "order")
        return assembly

    write(tmp_path, "a", b"<order>")
    reader = Reader(tmp_path, read, domain="XMLNSC", terminals=("failure",))
    reader.run()
    assert reader.put("failure") == [b"<order>"]


def test_a_file_that_ends_processes_is_given_up(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n")
    stage = MemoryWorld()
    for _ in range(5):
        reader = Reader(tmp_path, stage=stage)
        assert reader.source.next(0) is not None
        reader.crash()
    reader = Reader(tmp_path, stage=stage)
    reader.run()
    assert reader.put() == []
    assert files_in(tmp_path) == ["mqsibackout/a"]


def test_crashes_are_counted_anew_once_a_record_was_committed(tmp_path: Path) -> None:
    write(tmp_path, "a", b"".join(b"%d\n" % number for number in range(20)))
    stage = MemoryWorld()
    for _ in range(8):
        reader = Reader(tmp_path, stage=stage)
        reader.step(2)
        reader.crash()
    reader = Reader(tmp_path, stage=stage)
    reader.run()
    assert reader.put() == [b"%d" % number for number in range(20)]


def test_a_flow_that_stops_leaves_the_rest_of_a_file_to_the_next(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n3\n")
    first = Reader(tmp_path)
    first.step(1)
    first.source.close()
    second = Reader(tmp_path, stage=first.stage)
    second.run()
    assert second.put() == [b"1", b"2", b"3"]


def test_a_ledger_that_another_unit_of_work_holds_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "a", b"1\n2\n")
    first = Reader(tmp_path)
    first.step(1)
    first.crash()
    second = Reader(tmp_path, stage=first.stage)
    held = dict(second.stage.stores)
    second.stage.take = lambda store, key: None  # type: ignore[method-assign]
    message = second.source.next(0)
    assert message is not None
    with pytest.raises(NowhereToSetAside, match="has not ended yet"):
        second.stage.feed(second.kernel, second.point, message)
    assert second.stage.stores == held
    second.source.backed_out()
    del second.stage.take
    second.run()
    assert second.put() == [b"1", b"2"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FolderUnusable, match="No such file"):
        Reader(tmp_path / "nowhere")


def test_a_folder_that_goes_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    reader = Reader(folder)
    folder.rename(tmp_path / "away")
    with pytest.raises(FolderUnusable):
        reader.source.next(0)
    (tmp_path / "away").rename(folder)
    write(folder, "a", b"one")
    reader.run()
    assert reader.put() == [b"one"]


def test_a_file_that_cannot_be_archived_is_told_and_moved_later(tmp_path: Path) -> None:
    write(tmp_path, "mqsiarchive", b"a file where the folder should be")
    write(tmp_path, "a.csv", b"one")
    reader = Reader(tmp_path, action="archive", pattern="*.csv")
    reader.step()
    with pytest.raises(FolderUnusable, match="mqsiarchive"):
        reader.source.next(0)
    (tmp_path / "mqsiarchive").unlink()
    reader.run()
    assert reader.put() == [b"one"] and files_in(tmp_path) == ["mqsiarchive/a.csv"]


def test_a_name_with_no_room_for_more_goes_to_the_backout_folder(tmp_path: Path) -> None:
    write(tmp_path, "n" * 250, b"one")
    reader = Reader(tmp_path)
    reader.run()
    assert files_in(tmp_path) == [f"mqsibackout/{'n' * 100}"]


def test_next_waits_no_longer_than_it_is_told(tmp_path: Path) -> None:
    reader = Reader(tmp_path, polling_s=1000)
    assert reader.source.next(0) is None
    assert reader.source.next(0.02) is None


# --- FileOutput -------------------------------------------------------------------------------------


def writer(folder: Path, change: Change | None = None, **said: Any) -> Kernel:
    """Messages on IN are written, those on FINISH end the file; what goes on is put on OUT and ENDED."""
    flow = FlowDefinition("writing")
    flow.node("MQInput", "In", queue="IN")
    flow.node("MQInput", "Finish", queue="FINISH")
    flow.node("Python", "Change", function=change or (lambda assembly, send: assembly))
    flow.node("FileOutput", "Write", **{"directory": str(folder), "name": "out.txt", "forces": False, **said})
    flow.node("Python", "Told", function=_told)
    flow.node("MQOutput", "Out", queue="OUT")
    flow.node("MQOutput", "Ended", queue="ENDED")
    flow.link("In", "Change")
    flow.link("Change", "Write")
    flow.link("Finish", "Write", input="finishFile")
    flow.link("Write", "Told")
    flow.link("Told", "Out")
    flow.link("Write", "Ended", terminal="endOfData")
    return Kernel(flow)


def _told(assembly: Assembly, send: Any) -> Assembly:
    file = assembly.local_environment.first("WrittenDestination").first("File")  # type: ignore[union-attr]
    assert file is not None
    root = Root()
    root.add("BLOB").add("BLOB", f"{file.get('Directory')}|{file.get('Name')}|{file.get('Action')}".encode())
    return Assembly(root)


def named(name: str, folder: str | None = None) -> Change:
    def change(assembly: Assembly, send: Any) -> Assembly:
        file = assembly.local_environment.add("Destination").add("File")
        file.add("Name", name)
        if folder is not None:
            file.add("Directory", folder)
        return assembly

    return change


def feed(kernel: Kernel, *contents: bytes, stage: MemoryWorld | None = None, queue: str = "IN") -> MemoryWorld:
    stage = stage or MemoryWorld()
    for content in contents:
        stage.feed(kernel, queue, Message(content))
    return stage


def only_error(kernel: Kernel, content: bytes = b"x") -> Exception:
    journey = MemoryWorld().feed(kernel, "IN", Message(content))
    return journey.failures[0].error


def leftovers(kernel: Kernel) -> tuple[Any, LeftoverSource]:
    point = kernel.point("Write")
    assert point.source is not None
    source = point.source()
    assert isinstance(source, LeftoverSource)
    return point, source


def recover(kernel: Kernel, stage: MemoryWorld) -> int:
    point, source = leftovers(kernel)
    count = 0
    while (message := source.next(0)) is not None:
        stage.feed(kernel, point, message)
        count += 1
    source.committed()
    source.close()
    return count


def test_a_message_becomes_a_file_and_goes_on(tmp_path: Path) -> None:
    stage = feed(writer(tmp_path), b"content")
    assert (tmp_path / "out.txt").read_bytes() == b"content"
    assert [message.body for message in stage.queues["OUT"]] == [f"{tmp_path}|out.txt|Replace".encode()]


def test_a_name_can_come_from_the_message_and_lead_to_folders_below(tmp_path: Path) -> None:
    (tmp_path / "eu").mkdir()
    feed(writer(tmp_path, named("a.xml", "eu")), b"1")
    feed(writer(tmp_path, named("b.xml", str(tmp_path / "eu"))), b"2")
    assert (tmp_path / "eu" / "a.xml").read_bytes() == b"1"
    assert (tmp_path / "eu" / "b.xml").read_bytes() == b"2"


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("../x", None),
        ("/etc/passwd", None),
        ("..", None),
        ("a\0b", None),
        ("a\nb", None),
        ("n" * 201, None),
        ("mqsitransit", None),
        ("x", ".."),
        ("x", "/etc"),
        ("x", "sub/../../.."),
        ("x", "link"),
        ("x", "mqsitransit"),
        ("x", "a\0b"),
    ],
)
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str, folder: str | None) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    before = files_in(tmp_path)
    assert isinstance(only_error(writer(inside, named(name, folder))), FileNameUnsafe)
    assert files_in(tmp_path) == before


def test_no_name_at_all_is_told(tmp_path: Path) -> None:
    assert isinstance(only_error(writer(tmp_path, name="")), FileNameUnsafe)


def test_a_folder_below_that_is_missing_is_told(tmp_path: Path) -> None:
    assert isinstance(only_error(writer(tmp_path, named("x", "eu"))), FolderUnusable)
    assert isinstance(only_error(writer(tmp_path / "nowhere")), FolderUnusable)


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    write(tmp_path, "mqsitransit", b"a file where the folder should be")
    assert isinstance(only_error(writer(tmp_path)), FileWriteFailed)


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        ("replace", {"out.txt": b"new"}),
        ("append", {"out.txt": b"oldnew"}),
        ("archive", {"out.txt": b"new", "a": b"old"}),
    ],
)
def test_what_becomes_of_a_file_that_is_there(tmp_path: Path, existing: str, expected: dict[str, bytes]) -> None:
    write(tmp_path, "out.txt", b"old")
    feed(writer(tmp_path, existing=existing), b"new")
    found = {
        path.name if path.parent == tmp_path else "a": path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert found == expected


def test_a_file_that_must_not_be_there_is_told(tmp_path: Path) -> None:
    kernel = writer(tmp_path, existing="fail")
    feed(kernel, b"first")
    assert isinstance(only_error(kernel, b"second"), FileExistsAlready)
    assert (tmp_path / "out.txt").read_bytes() == b"first"


def test_a_file_that_comes_in_between_is_not_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    kernel = writer(tmp_path, existing="fail")
    stage = MemoryWorld()
    journey = kernel.process(kernel.point("IN"), Message(b"mine"), stage)
    write(tmp_path, "out.txt", b"another's")
    stage.settle(journey)
    assert (tmp_path / "out.txt").read_bytes() == b"another's"
    assert (tmp_path / "mqsifailure" / "out.txt").read_bytes() == b"mine"


def test_a_message_that_is_backed_out_writes_nothing(tmp_path: Path) -> None:
    kernel = writer(tmp_path, existing="append")
    kernel.process(kernel.point("IN"), Message(b"x"), MemoryWorld())
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"records": "delimited"}, b"a\nbb\n"),
        ({"records": "delimited", "delimiter_type": "infix"}, b"a\nbb"),
        ({"records": "delimited", "delimiter": "customDelimiter", "custom_delimiter": "3B 3B"}, b"a;;bb;;"),
        ({"records": "unmodified"}, b"abb"),
        ({"records": "fixedLength", "record_length": 3, "padding": "2A"}, b"a**bb*"),
    ],
)
def test_records_are_collected_until_the_file_is_finished(
    tmp_path: Path, said: dict[str, Any], expected: bytes
) -> None:
    kernel = writer(tmp_path, **said)
    stage = feed(kernel, b"a", b"bb")
    assert not (tmp_path / "out.txt").exists()
    assert (tmp_path / "mqsitransit" / "out.txt").read_bytes() == expected
    feed(kernel, b"anything", stage=stage, queue="FINISH")
    assert files_in(tmp_path) == ["out.txt"]
    assert (tmp_path / "out.txt").read_bytes() == expected
    assert [message.body for message in stage.queues["ENDED"]] == [b"anything"]


def test_a_finished_file_can_be_appended_to_another(tmp_path: Path) -> None:
    kernel = writer(tmp_path, records="delimited", existing="append")
    for round_ in (b"1", b"2"):
        feed(kernel, b"a" + round_, b"b" + round_)
        feed(kernel, b"", queue="FINISH")
    assert (tmp_path / "out.txt").read_bytes() == b"a1\nb1\na2\nb2\n"
    assert files_in(tmp_path) == ["out.txt"]


def test_finishing_a_file_without_records_makes_none(tmp_path: Path) -> None:
    feed(writer(tmp_path, records="delimited"), b"", queue="FINISH")
    assert files_in(tmp_path) == []


def test_a_message_that_is_longer_than_a_record_is_told(tmp_path: Path) -> None:
    kernel = writer(tmp_path, records="fixedLength", record_length=3)
    assert isinstance(only_error(kernel, b"long"), RecordWrongLength)


def test_notes_about_files_in_their_place_are_taken_away(tmp_path: Path) -> None:
    stage = feed(writer(tmp_path), *[b"%d" % number for number in range(10)])
    assert len([place for place in stage.stores if place[0] == WRITTEN]) == 1


def crashed(kernel: Kernel, stage: MemoryWorld, content: bytes, queue: str = "IN") -> None:
    """The unit of work is committed, and the process dies before it has done anything more."""
    journey = kernel.process(kernel.point(queue), Message(content), stage)
    journey.after_commit = []
    stage.settle(journey)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"existing": "replace"}, b"3"),
        ({"existing": "append"}, b"123"),
        ({"existing": "archive"}, b"3"),
        ({"records": "delimited"}, b"1\n2\n3\n"),
        ({"records": "delimited", "delimiter_type": "infix"}, b"1\n2\n3"),
    ],
)
def test_what_was_committed_is_written_after_a_crash(tmp_path: Path, said: dict[str, Any], expected: bytes) -> None:
    kernel, stage = writer(tmp_path, **said), MemoryWorld()
    for content in (b"1", b"2", b"3"):
        crashed(kernel, stage, content)
    if "records" in said:
        crashed(kernel, stage, b"", "FINISH")
    assert not (tmp_path / "out.txt").exists()
    again = writer(tmp_path, **said)
    assert recover(again, stage) > 0
    assert recover(again, stage) == 0
    assert (tmp_path / "out.txt").read_bytes() == expected
    assert [path for path in files_in(tmp_path) if "mqsitransit" in path] == []


def test_what_was_not_committed_is_not_written_and_goes_some_day(tmp_path: Path) -> None:
    kernel, stage = writer(tmp_path), MemoryWorld()
    kernel.process(kernel.point("IN"), Message(b"x"), stage)
    again = writer(tmp_path)
    assert recover(again, stage) == 1
    (left,) = files_in(tmp_path)
    path = tmp_path / left
    moment = path.stat().st_mtime - 4_000
    os.utime(path, (moment, moment))
    recover(again, stage)
    assert files_in(tmp_path) == []


def test_what_a_living_process_is_about_to_write_is_left_alone(tmp_path: Path) -> None:
    kernel, stage = writer(tmp_path), MemoryWorld()
    journey = kernel.process(kernel.point("IN"), Message(b"x"), stage)
    assert recover(writer(tmp_path), stage) == 0
    stage.settle(journey)
    assert (tmp_path / "out.txt").read_bytes() == b"x"


def test_a_late_file_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    kernel, stage = writer(tmp_path), MemoryWorld()
    crashed(kernel, stage, b"old")
    (late,) = (tmp_path / "mqsitransit").iterdir()
    os.utime(late, (1_000, 1_000))
    feed(kernel, b"new", stage=stage)
    recover(writer(tmp_path), stage)
    assert (tmp_path / "out.txt").read_bytes() == b"new"
    assert files_in(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("written", [b"", b"s", b"second", b"secondjunk"])
def test_an_append_that_was_cut_short_is_done_again(tmp_path: Path, written: bytes) -> None:
    kernel, stage = writer(tmp_path, existing="append"), MemoryWorld()
    feed(kernel, b"first", stage=stage)
    crashed(kernel, stage, b"second")
    # The process had got as far as this.
    (spool,) = (tmp_path / "mqsitransit").iterdir()
    spool.rename(spool.with_name(f"{spool.name}.at.5."))
    with (tmp_path / "out.txt").open("ab") as target:
        target.write(written)
    feed(writer(tmp_path, existing="append"), b"third", stage=stage)  # before anybody has looked for leftovers
    recover(writer(tmp_path, existing="append"), stage)
    assert (tmp_path / "out.txt").read_bytes() == b"firstsecondthird"
    assert files_in(tmp_path) == ["out.txt"]


def test_a_file_that_cannot_be_put_in_its_place_is_tried_again(tmp_path: Path) -> None:
    kernel, stage = writer(tmp_path), MemoryWorld()
    (tmp_path / "out.txt").mkdir()
    feed(kernel, b"x", stage=stage)
    point, source = leftovers(kernel)
    message = source.next(0)
    assert message is not None
    with pytest.raises(NowhereToSetAside):
        stage.feed(kernel, point, message)
    source.backed_out()
    (tmp_path / "out.txt").rmdir()
    recover(kernel, stage)
    assert (tmp_path / "out.txt").read_bytes() == b"x"


def test_spools_force_what_they_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    spools = Spools(tmp_path)
    task = Task("a.txt", "append")
    spool = spools.write(task, b"x")
    assert len(forced) == 2  # the bytes, and the folder that names them
    spools.place(spool, task)
    assert len(forced) == 4
    assert (tmp_path / "a.txt").read_bytes() == b"x"


def test_files_go_through_a_flow_from_folder_to_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    write(tmp_path / "in", "orders-7.csv", b"one\r\ntwo\r\n")
    flow = FlowDefinition("copy")
    flow.node(
        "FileInput", "In", directory=str(tmp_path / "in"), records="delimited", pattern="orders-*.csv", polling_s=0
    )
    flow.node(
        "FileOutput", "Out", directory=str(tmp_path / "out"), records="delimited", name="done-*.csv", forces=False
    )
    flow.link("In", "Out")
    flow.link("In", "Out", terminal="endOfData", input="finishFile")
    kernel, stage = Kernel(flow), MemoryWorld()
    point = kernel.point("In")
    assert point.source is not None
    source = point.source()
    while (message := source.next(0)) is not None:
        stage.feed(kernel, point, message)
        source.committed()
    assert files_in(tmp_path) == ["out/done-7.csv"]
    assert (tmp_path / "out" / "done-7.csv").read_bytes() == b"one\ntwo\n"


# --- definitions ------------------------------------------------------------------------------------


@for_each(
    ("type_name", "properties", "problem"),
    [
        ("FileInput", {"pattern": "../*"}, "pattern is the name"),
        ("FileInput", {"records": "fixedLength", "record_length": 0}, "at least one byte"),
        ("FileInput", {"delimiter": "customDelimiter", "custom_delimiter": "xyz"}, "is no delimiter"),
        ("FileInput", {"polling_s": -1}, "polling_s is no time"),
        ("FileOutput", {"name": "../x"}, "is no name for a file"),
        ("FileOutput", {"delimiter": "customDelimiter"}, "is no delimiter"),
        ("FileOutput", {"records": "fixedLength", "record_length": -1}, "at least one byte"),
        ("FileOutput", {"padding": "space"}, "is no byte"),
    ],
)
def test_definitions_with_mistakes_are_told(type_name: str, properties: dict[str, Any], problem: str) -> None:
    flow = FlowDefinition("f")
    definition = flow.node(type_name, "N", directory="/tmp", **properties)
    assert any(problem in mistake.problem for mistake in find_type(type_name).check(definition, flow))
