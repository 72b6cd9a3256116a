# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import fnmatch
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.errors import InvalidSetting
from entrepot.server.security.distinguished_name import Part, fits, parse, rank, render
from folding import for_each

NAME = 'CN=app7,OU=Orders,OU=EU,O="Port, Inc",C=NL'


@for_each(
    "pattern",
    [
        "CN=app7",
        "CN=app*",
        "CN=*7",
        "CN=*pp*",
        "CN=*",
        "CN=APP7",
        "cn=app7",
        "C=NL,CN=app7",
        "OU=EU,OU=Orders",
        "OU=EU",
        "OU=*,OU=*",
        "OU=*,OU=Orders",
        "OU=Orders,OU=*",
        "OU=*,OU=EU",
        'O="Port, Inc"',
        'O="Port*"',
        r"O=Port\, Inc",
        "O=Port*",
        "CN=app7 , C=NL",
        "CN=app7;C=NL",
        'CN="app7"',
        NAME,
    ],
)
def test_pattern_fits(pattern: str) -> None:
    assert fits(pattern, NAME)


@for_each(
    "pattern",
    [
        "CN=app",
        "CN=app8",
        "CN=app7,C=BE",
        "CN=app7,L=Rotterdam",
        "OU=EU,OU=EU",
        "OU=*,OU=*,OU=*",
        "OU=*,OU=*,OU=Orders",
        "OU=Orders,OU=Ord*",
        "O=Port",
        r"CN=app\*",
        "CN=",
        'CN=" app7"',
        "DC=app7",
        "",
    ],
)
def test_pattern_does_not_fit(pattern: str) -> None:
    assert not fits(pattern, NAME)


@for_each("text", ["app7", "CN", "=x", "CN=a,", "CN=a,,O=b", ",CN=a", 'CN="a', "CN=a\\", "CN =a", "CN=a,b", "C++=x"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse(text)
    with pytest.raises(InvalidSetting):
        fits(text, NAME)


def test_synonyms_are_the_same_attribute() -> None:
    assert fits("ST=Zuid", "SP=Zuid")
    assert fits("S=Zuid", "ST=Zuid")
    assert fits("MAIL=a@b", "E=a@b")
    assert fits("USERID=u", "UID=u")


@for_each(
    "forged",
    [
        [("CN", "evil,O=Port")],
        [("CN", "evil;O=Port")],
        [("CN", "evil+O=Port")],
        [("CN", 'evil",O="Port')],
        [("CN", "evil\\,O=Port")],
        [("CN", "x\n,O=Port")],
        [("CN", "x\0,O=Port")],
        [("CN", "*"), ("O", "Port*")],
        [("CN", "app1"), ("OU", "O=Port")],
    ],
)
def test_nobody_gets_another_part_by_what_he_calls_himself(forged: list[Part]) -> None:
    text = render(forged)
    assert parse(text) == tuple(forged)
    assert text.isprintable()
    assert not fits("O=Port", text)
    assert not fits("CN=app1,O=Port", text)


def test_asterisks_in_a_name_stand_for_nothing_but_themselves() -> None:
    assert fits(r"CN=\*", render([("CN", "*")]))
    assert not fits(r"CN=\*", render([("CN", "x")]))
    assert not fits("CN=app1", render([("CN", "app*")]))
    assert fits(render([("CN", "a*b")]), render([("CN", "a*b")]))
    assert not fits(render([("CN", "a*b")]), render([("CN", "axb")]))


PARTS = st.lists(st.tuples(st.sampled_from(["CN", "O", "OU", "DC", "1.2.3"]), st.text(max_size=10)), max_size=5)


@given(PARTS)
@example([("CN", " a ")])
@example([("CN", "#1")])
@example([("CN", "\ue000\x7f\u2028")])
@example([("CN", "a\\2c")])
def test_a_name_as_text_is_the_same_name_again(parts: list[Part]) -> None:
    text = render(parts)
    assert parse(text) == tuple(parts)
    assert text.isprintable()
    if parts:
        assert fits(text, text)


@given(
    st.lists(st.sampled_from(["*", "a*", "*b", "a", "ab", "b"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["a", "b", "ab", "c"]), max_size=4),
)
@example(["*", "a*", "ab"], ["ab", "a", "c"])
@example(["*", "*b", "ab"], ["ab", "b", "c"])
def test_each_wanted_part_has_a_part_of_the_name_to_itself(wanted: list[str], units: list[str]) -> None:
    expected = any(all(map(fnmatch.fnmatchcase, order, wanted)) for order in itertools.permutations(units, len(wanted)))
    assert fits(",".join(f"OU={one}" for one in wanted), ",".join(f"OU={unit}" for unit in units)) == expected


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str) -> None:
    with contextlib.suppress(InvalidSetting):
        fits(pattern, name)


@for_each(
    ("specific", "general"),
    [
        ("CN=app7", "CN=app*"),
        ("CN=app7", "O=Port"),
        ("CN=app7,O=Port", "CN=app7"),
        ("CN=app7,O=*", "CN=app7"),
        ("CN=*", "OU=Orders,O=Port,C=NL"),
        ("CN=app*", "CN=*"),
        ("CN=app*", "CN=a*"),
        ("OU=Orders,OU=EU", "OU=Orders"),
        ("SERIALNUMBER=1", "CN=app7,O=Port"),
        ("CN=app7,O=Port", "CN=app7,C=NL"),
        # Attributes that MQ's order does not have come last, and count.
        ("CN=app7,1.2.3=x", "CN=app7"),
        ("1.2.3=x,NAME=y", "1.2.3=x"),
        ("1.2.3=x", "1.2.3=*"),
        ("C=*", "1.2.3=x,NAME=y"),
    ],
)
def test_more_specific_pattern_is_first(specific: str, general: str) -> None:
    assert rank(specific) < rank(general)
