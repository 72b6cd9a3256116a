# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.server.mqsc.addresses import AddressPattern, AddressPatterns, ConnectionName, ListenerAddress, PeerPattern
from entrepot.server.mqsc.forms import Form, InvalidValue
from folding import for_each

PATTERN, NAME, PEER = AddressPattern(), ConnectionName(), PeerPattern(40)


@for_each(
    ("form", "text"),
    [
        (ListenerAddress(), "0.0.0.0"),
        (ListenerAddress(), "::1"),
        (ListenerAddress(), "db.example"),
        (NAME, "db.example(1414)"),
        (NAME, "db.example"),
        (NAME, "a(1), b(65535),::1(7)"),
        (NAME, "unix:/var/qm 1"),
        (PATTERN, "*"),
        (PATTERN, "192.168.*"),
        (PATTERN, "10.0.0.1-20"),
        (PATTERN, "10.0.0.0/8"),
        (PATTERN, "2001:db8::/32"),
        (PEER, "CN=app*,O=Port"),
        (PEER, ""),
    ],
)
def test_what_leads_somewhere_is_kept_as_it_was_said(form: Form, text: str) -> None:
    assert form.parse(text) == text
    assert form.fits(text)


@for_each(
    ("form", "text"),
    [
        (ListenerAddress(), ""),
        (ListenerAddress(), "a b"),
        (NAME, "db.example(0)"),
        (NAME, "db.example(65536)"),
        (NAME, "db.example(x)"),
        (NAME, "a(1),,b(2)"),
        (NAME, "UNIX:/VAR/QM"),
        (NAME, "unix:"),
        (NAME, "x" * 265),
        (PATTERN, "10.0.0"),
        (PATTERN, "10.0.0.256"),
        (PATTERN, "10.0.0.20-1"),
        (PATTERN, "10.0.0.1/8"),
        (PATTERN, "db.example"),
        (PEER, "ann"),
        (PEER, "CN=" + "x" * 38),
        (PEER, "CN=a\nb"),
    ],
)
def test_what_leads_nowhere_is_refused(form: Form, text: str) -> None:
    with pytest.raises(InvalidValue):
        form.parse(text)
    assert not form.fits(text)


def test_blanks_mean_none() -> None:
    assert NAME.parse(" ") == PATTERN.parse(" ") == PEER.parse("  ") == ""


def test_unix_is_a_word_that_may_be_written_in_any_case() -> None:
    assert PATTERN.parse("UNIX") == "unix"


def test_list_of_addresses_has_a_greatest_length() -> None:
    form = AddressPatterns(2)
    assert form.fits(("*", "unix"))
    assert not form.fits(("*", "unix", "10.*"))
    assert form.show(("*",)) == ["*"]
