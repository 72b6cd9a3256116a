# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
import typer

from entrepot.cli.arguments import hex_identifier, identifier, moment, place, property_pair, size
from entrepot.errors import InvalidUrl
from folding import for_each


@for_each(
    ("text", "size_bytes"),
    [
        ("4096", 4096),
        ("4096b", 4096),
        ("32k", 32768),
        ("32K", 32768),
        ("64KiB", 65536),
        ("1.5MiB", 1572864),
        ("64 MiB", 67108864),
        ("1g", 1073741824),
        ("64kB", 64000),
        ("0", 0),
    ],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert size(text) == size_bytes


@for_each("text", ["", "big", "-1", "1x", "64KiBs", "0.3", "1e3", "k"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        size(text)


def test_places() -> None:
    assert place("embedded:./qm1") == Path("qm1")
    assert place("qm1") == Path("qm1")
    for url in ("mq://host", "unix:/run/qm", "embedded:"):
        with pytest.raises(InvalidUrl):
            place(url)


def test_ids_are_hex_digits_or_text() -> None:
    assert identifier("c0ffee") == b"\xc0\xff\xee"
    assert identifier("order-7") == b"order-7"
    assert identifier("abc") == b"abc"
    assert identifier("text:c0ffee") == b"c0ffee"
    assert hex_identifier("00FF") == b"\x00\xff"
    with pytest.raises(typer.BadParameter):
        hex_identifier("order-7")


def test_times() -> None:
    assert moment("1970-01-01T00:00:10Z") == 10.0
    assert moment("1970-01-01T02:00:00+02:00") == 0.0
    with pytest.raises(typer.BadParameter):
        moment("yesterday")


@for_each(
    ("text", "value"),
    [
        ("a=EU", "EU"),
        ("a=3", 3),
        ("a=-2.5", -2.5),
        ("a=1e3", 1000.0),
        ("a=true", True),
        ("a=text:3", "3"),
        ("a=b=c", "b=c"),
        ("a=", ""),
        ("a=inf", "inf"),
        ("a=1.2.3", "1.2.3"),
        ("a=1_000", "1_000"),
    ],
)
def test_properties(text: str, value: object) -> None:
    name, found = property_pair(text)
    assert (name, found, type(found)) == ("a", value, type(value))


@pytest.mark.parametrize("text", ["a", "=3", ""])
def test_what_is_no_property_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        property_pair(text)
