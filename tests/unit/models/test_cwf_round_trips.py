# SPDX-License-Identifier: Apache-2.0
"""Random models and random messages of them: what is written is read again, and the other way round."""

from __future__ import annotations

import string
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.models.logical import Composition, CwfField, Simple, Structure, StructureMember, ValueType
from unit.models.cwf_models import codec_of, group, plain, simple, tree

LETTERS = string.ascii_letters + string.digits
CCSIDS = st.sampled_from([819, 1208, 500, 37])
ENCODINGS = st.sampled_from([0x111, 0x222, 0x311, 0x112, 0x121, 0x211, 0x212])


def integers(length: int, signed: bool) -> st.SearchStrategy[int]:
    bits = 8 * length
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


def decimals(digits: int, places: int, signed: bool) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most if signed else 0, most).map(lambda number: Decimal(f"{number}E-{places}"))


@st.composite
def fields(draw: st.DrawFn, name: str) -> tuple[StructureMember, st.SearchStrategy[Any]]:
    """A simple element, and the values that it can have."""
    gaps = {"skip_before": draw(st.integers(0, 2)), "alignment": draw(st.sampled_from([0, 0, 0, 2, 4, 8]))}
    signed = draw(st.booleans())
    kind = draw(
        st.sampled_from(["string", "integer", "packed", "external", "float", "hexfloat", "binary", "date", "when"])
    )
    length = draw(st.integers(1, 8))
    if kind == "string":
        justify = draw(st.sampled_from(["left", "right"]))
        member = simple(name, Simple(ValueType.STRING), "string", length, justify=justify, **gaps)
        return member, st.text(LETTERS, max_size=length)
    if kind == "binary":
        return simple(name, Simple(ValueType.BINARY), "binary", length, **gaps), st.binary(
            min_size=length, max_size=length
        )
    if kind == "integer":
        member = simple(name, Simple(ValueType.INTEGER), "integer", length, signed=signed, **gaps)
        return member, integers(length, signed)
    if kind in ("packed", "external"):
        places = draw(st.integers(1, 4))
        sign = draw(st.sampled_from(["trailing", "leading", "trailing separate", "leading separate"]))
        separate = kind == "external" and signed and sign.endswith("separate")
        length += separate
        digits = 2 * length - 1 if kind == "packed" else length - separate
        said = {"signed": signed, "decimals": places, "sign": sign, "ebcdic_sign": draw(st.booleans())}
        return simple(name, Simple(ValueType.DECIMAL), kind, length, **said, **gaps), decimals(digits, places, signed)
    if kind in ("float", "hexfloat"):
        # Numbers that a fraction of 24 bits holds, in either form.
        values = st.integers(-(2**20), 2**20).map(lambda number: number / 16)
        return simple(name, Simple(ValueType.FLOAT), kind, draw(st.sampled_from([4, 8])), **gaps), values
    if kind == "date":
        member = simple(name, Simple(ValueType.DATE), "packed", 4, format="yyyyDDD", **gaps)
        return member, st.dates(date(1000, 1, 1))
    member = simple(name, Simple(ValueType.DATETIME), "string", 14, format="yyyyMMddHHmmss", **gaps)
    return member, st.datetimes(datetime(1000, 1, 1)).map(lambda value: value.replace(microsecond=0))


@st.composite
def messages(draw: st.DrawFn, depth: int = 2) -> tuple[list[StructureMember], list[tuple[str, Any]]]:
    """Members, and a tree of them."""
    members: list[StructureMember] = []
    pairs: list[tuple[str, Any]] = []
    for index in range(draw(st.integers(1, 4))):
        name = f"{'ABC'[depth]}{index}"
        shape = draw(st.sampled_from(["one", "table", "counted", "sized", "structure", "rows", "choice"]))
        if shape == "one" or (depth == 0 and shape in ("structure", "rows")):
            member, values = draw(fields(name))
            members.append(member)
            pairs.append((name, draw(values)))
        elif shape == "table":
            member, values = draw(fields(name))
            times = draw(st.integers(2, 4))
            members.append(StructureMember(name, member.content, times, times, physical=member.physical))
            pairs += [(name, draw(values)) for _ in range(times)]
        elif shape == "counted":
            times = draw(st.integers(0, 3))
            member, values = draw(fields(name))
            physical = member.physical["CWF1"]
            assert isinstance(physical, CwfField)
            counted = CwfField(
                **{key: getattr(physical, key) for key in physical.__slots__} | {"count_from": f"N{name}"}
            )
            members.append(simple(f"N{name}", Simple(ValueType.INTEGER), "packed", 2))
            members.append(StructureMember(name, member.content, 0, 3, physical={"CWF1": counted}))
            pairs += [(f"N{name}", times), *((name, draw(values)) for _ in range(times))]
        elif shape == "sized":
            value = draw(st.text(LETTERS, max_size=6))
            members.append(simple(f"L{name}", Simple(ValueType.INTEGER), "integer", 1))
            members.append(simple(name, Simple(ValueType.STRING), "string", length_from=f"L{name}"))
            pairs += [(f"L{name}", len(value)), (name, value)]
        elif shape == "choice":
            value = draw(st.integers(0, 99))
            first = simple(f"{name}X", Simple(ValueType.INTEGER), "external", 2, signed=False)
            second = simple(f"{name}Y", Simple(ValueType.STRING), "string", 3)
            members.append(group("", first, second, composition=Composition.CHOICE))
            pairs.append((f"{name}X", value) if draw(st.booleans()) else (f"{name}Y", "zz"))
        else:
            inner, inner_pairs = draw(messages(depth - 1))
            times = 1 if shape == "structure" else 2
            members.append(
                StructureMember(
                    name, Structure(name, tuple(inner)), times, times, physical={"CWF1": CwfField("structure")}
                )
            )
            pairs += [(name, inner_pairs)] * times
    return members, pairs


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(messages(), CCSIDS, ENCODINGS)
def test_what_is_written_is_read_and_written_again(
    message: tuple[list[StructureMember], list[tuple[str, Any]]], ccsid: int, encoding: int
) -> None:
    members, pairs = message
    codec = codec_of(*members)
    body = codec.render(tree(*pairs), ccsid, encoding)
    elements = codec.parse(body, ccsid, encoding)
    assert plain(elements) == pairs
    again = tree()
    again.fill(elements)
    assert codec.render(again, ccsid, encoding) == body


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(messages(), st.randoms(use_true_random=False))
def test_counts_lengths_and_order_need_not_be_said(
    message: tuple[list[StructureMember], list[tuple[str, Any]]], source: Any
) -> None:
    members, pairs = message
    codec = codec_of(*members)
    body = codec.render(tree(*pairs), 819, 273)
    names = [name for name, _ in pairs if name[0] not in "NL"]
    source.shuffle(names)
    left = {name: [value for other, value in pairs if other == name] for name in names}
    mixed = [(name, left[name].pop(0)) for name in names]
    assert codec.render(tree(*mixed), 819, 273) == body


def test_times_are_covered_by_the_fields_above() -> None:
    member = simple("A", Simple(ValueType.TIME), "packed", 4, format="HHmmss")
    codec = codec_of(member)
    assert codec.parse(bytes.fromhex("0235958C"), 819, 273)[0].value == time(23, 59, 58)
