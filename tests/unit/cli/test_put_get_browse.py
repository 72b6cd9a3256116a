# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from folding import for_each

from .conftest import Complaint, Shell


def test_put_tells_the_message_id_and_get_finds_it(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "first")
    (message_id,) = shell.json("put", qm, "Q", "second")["message_ids"]
    (message,) = shell.lines("get", qm, "Q", "--message-id", message_id)
    assert (message["body"], message["message_id"], message["persistent"]) == ("second", message_id, True)


def test_descriptor_reaches_the_message(shell: Shell, qm: Path) -> None:
    shell(
        "put", qm, "Q", "body", "--priority", "7", "--expiry", "1000", "--correlation-id", "c0ffee",
        "--group-id", "g-1", "--group-sequence", "2", "--group-last",
        "--property", "region=EU", "-p", "size=3", "--reply-to", "REPLIES",
    )  # fmt: skip
    (message,) = shell.lines("browse", qm, "Q")
    assert 0 < message.pop("expiry_s") <= 1000
    for key, value in {
        "priority": 7,
        "correlation_id": "c0ffee",
        "group_id": b"g-1".hex(),
        "sequence": 2,
        "last_in_group": True,
        "properties": {"region": "EU", "size": 3},
        "reply_to": "REPLIES",
    }.items():
        assert message[key] == value


def test_body_comes_from_a_file_or_from_standard_input_byte_for_byte(shell: Shell, qm: Path, tmp_path: Path) -> None:
    body = bytes(range(256))
    (tmp_path / "body").write_bytes(body)
    shell("put", qm, "Q", "--file", tmp_path / "body")
    shell("put", qm, "Q", stdin=body)
    assert shell("get", qm, "Q", "--body-only").stdout_bytes == body
    assert shell("get", qm, "Q", "--body-only").stdout_bytes == body


def test_several_bodies_stand_on_lines_of_their_own(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "x", "--count", "3")
    assert shell("get", qm, "Q", "--all", "--body-only").stdout == "x\nx\nx"


def test_put_many_and_get_some_or_all(shell: Shell, qm: Path) -> None:
    assert "and 1,199 more" in shell("put", qm, "Q", "x", "--count", "1200").stdout
    assert len(shell.lines("get", qm, "Q", "--count", "2")) == 2
    assert len(shell.lines("get", qm, "Q", "--all")) == 1198
    assert shell.lines("get", qm, "Q", "--wait", "0.05") == []


def test_empty_queue_is_no_error(shell: Shell, qm: Path) -> None:
    assert "No message on Q." in shell("get", qm, "Q").stderr
    assert "No message on Q meets the selector." in shell("browse", qm, "Q", "-s", "a = 1").stderr


def test_messages_are_chosen_by_selector_and_correlation_id(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "eu", "-p", "region=EU", "--correlation-id", "order-7")
    shell("put", qm, "Q", "us", "-p", "region=US")
    assert [message["body"] for message in shell.lines("browse", qm, "Q", "-s", "region = 'US'")] == ["us"]
    assert shell.lines("get", qm, "Q", "-s", "region = 'ASIA'") == []
    assert shell.lines("get", qm, "Q", "--correlation-id", "order-7")[0]["body"] == "eu"


def test_browse_leaves_messages_and_says_when_there_are_more(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "[red]42[/red]", "--count", "3")
    shown = shell("browse", qm, "Q", "--limit", "2")
    assert shown.stdout.count("[red]42[/red]") == 2
    assert "There are more" in shown.stderr
    assert len(shell.lines("browse", qm, "Q")) == 3


def test_get_shows_a_person_descriptor_and_body(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "42 [bold]crates", "-p", "region=EU")
    said = shell("get", qm, "Q").stdout
    assert "region=EU" in said
    assert "42 [bold]crates" in said


def test_nonpersistent_put_warns_that_it_ends_with_the_command(shell: Shell, qm: Path) -> None:
    assert "ended with this command" in shell("put", qm, "Q", "x", "--nonpersistent").stderr
    assert shell.lines("get", qm, "Q") == []


def test_delayed_message_waits(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "later", "--delay", "3600")
    assert shell.lines("get", qm, "Q") == []


@for_each(
    ("words", "code", "expected"),
    [
        (("put", "NONE", "x"), 1, "QueueNotFound Q01"),
        (("put", "Q", "x", "--priority", "10"), 1, "InvalidArgument S04"),
        (("put", "Q", "x", "--expiry", "0"), 1, "InvalidArgument S04"),
        (("put", "Q", "x", "--delay", "-1"), 1, "InvalidArgument S04"),
        (("put", "Q", "x", "--property", "nonsense"), 2, "is no property"),
        (("put", "Q", "x", "--count", "0"), 2, "count"),
        (("put", "Q", "--file", "/nowhere/at/all"), 2, "does not exist"),
        (("put", "Q", "x", "--file", "/dev/null"), 2, "not both"),
        (("get", "NONE"), 1, "QueueNotFound Q01"),
        (("get", "Q", "--selector", "region ="), 1, "SelectorSyntaxError Q21"),
        (("get", "Q", "--message-id", "xyz"), 2, "is no id"),
        (("get", "Q", "--wait", "-1"), 2, "wait"),
        (("get", "Q", "--json", "--body-only"), 2, "choose one"),
        (("browse", "NONE"), 1, "QueueNotFound Q01"),
        (("browse", "Q", "--selector", "(("), 1, "SelectorSyntaxError Q21"),
        (("browse", "Q", "--limit", "0"), 2, "limit"),
    ],
)
def test_wrong_words(complaint: Complaint, qm: Path, words: tuple[str, ...], code: int, expected: str) -> None:
    command, *rest = words
    assert expected in complaint(command, qm, *rest, code=code)


def test_full_queue_takes_all_of_a_unit_or_nothing(complaint: Complaint, shell: Shell, qm: Path) -> None:
    shell("mqsc", qm, "-e", "ALTER QLOCAL(Q) MAXDEPTH(3)")
    assert "QueueFull Q02" in complaint("put", qm, "Q", "x", "--count", "4")
    assert shell.lines("browse", qm, "Q") == []


def test_unreadable_file(complaint: Complaint, qm: Path, tmp_path: Path) -> None:
    assert "is a directory" in complaint("put", qm, "Q", "--file", tmp_path, code=2)


def test_surrogates_of_the_command_line_are_bytes_again(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "caf\udce9")
    assert shell("get", qm, "Q", "--body-only").stdout_bytes == b"caf\xe9"
