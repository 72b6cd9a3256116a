# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.cli.messages import as_json, preview, properties_line, text_of
from entrepot.message import Message


def test_preview_shows_text_as_text_and_bytes_as_hex() -> None:
    assert preview(b"42 crates") == '"42 crates"'
    assert preview(b"\x00\xff") == "0x00ff"
    assert preview(b"a\nb") == '"a\\nb"'
    assert preview(b"") == '""'


def test_preview_is_short_and_says_so() -> None:
    assert preview(b"x" * 100, 10) == '"xxxxxxxxxx…"'
    assert preview(b"\x00" * 100, 10) == "0x0000000000…"


def test_preview_may_cut_a_character_in_half() -> None:
    assert preview("€".encode() * 1000, 10) == '"€€€€€€€€€€…"'


def test_preview_plays_no_tricks_on_the_terminal() -> None:
    assert preview(b"\x1b[2Jgone") == "0x1b5b324a676f6e65"
    assert text_of(b"\x1b[2J") is None


def test_json_tells_ids_in_hex_and_bodies_as_text_or_base64() -> None:
    shown = as_json(Message(b"\xff", b"\x01", b"\x02", properties={"n": 3, "raw": b"\x00"}))
    assert shown["message_id"] == "01"
    assert shown["correlation_id"] == "02"
    assert shown["body_base64"] == "/w=="
    assert shown["properties"] == {"n": 3, "raw": {"base64": "AA=="}}
    assert as_json(Message(b"text"))["body"] == "text"


def test_json_always_tells_of_a_publication_whether_it_was_retained() -> None:
    assert as_json(Message(b"", topic="prices"))["retained"] is False
    assert "retained" not in as_json(Message(b""))


def test_the_time_of_a_dead_letter_is_readable() -> None:
    line = properties_line(Message(b"", properties={"dead_letter_time": 1_795_000_000.5, "n": 5.5}))
    assert line.startswith("dead_letter_time=2026-11-1")
    assert line.endswith(" n=5.5")
