# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.models.tds.mnemonics import resolve, spell
from folding import for_each


@for_each(
    ("written", "meant"),
    [
        ("<CR><LF>:", "\r\n:"),
        ("<SP>", " "),
        ("<HT><VT><FF><NUL><ESC>", "\t\v\f\0\x1b"),
        ("<SOH><STX><ETX><EOT>", "\x01\x02\x03\x04"),
        ("<FS><GS><RS><US>", "\x1c\x1d\x1e\x1f"),
        ("<U+0041><U+20AC>", "A€"),
        ("<0x1D><0X1e>", "\x1d\x1e"),
        ("<cr>", "\r"),
        ("<EDIFACT_GROUP_TERM><X12_DS><HL7_FS>", "'*|"),
        ("<", "<"),
        ("<abc>", "<abc>"),
        ("a<b>c", "a<b>c"),
        ("<U+110000>", "<U+110000>"),
        ("", ""),
    ],
)
def test_mnemonics_mean_characters(written: str, meant: str) -> None:
    assert resolve(written) == meant


def test_spelled_text_shows_what_cannot_be_seen() -> None:
    assert spell("\r\n-") == "<CR><LF>-"
    assert spell(" a b ") == "<SP>a b<SP>"
    assert spell("\u200b") == "<U+200B>"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_resolving_what_was_spelled_gives_the_text_again(text: str) -> None:
    assert resolve(spell(text)) == text


@given(st.lists(st.sampled_from(["<CR>", "<", ">", "<U+", "0041>", "CR>", "<SP>", " "])).map("".join))
def test_text_that_looks_like_a_mnemonic_can_be_spelled(text: str) -> None:
    assert resolve(spell(text)) == text
