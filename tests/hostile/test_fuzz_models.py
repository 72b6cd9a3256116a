# SPDX-License-Identifier: Apache-2.0
"""Good messages, models and programs with bad bytes in them: a tree that can be written and read again, or our error.

ENTREPOT_FUZZ_EXAMPLES=100000 pytest tests/hostile/test_fuzz_models.py -m torture    more of them
ENTREPOT_EXPLORE=1                                                                   others each time
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.errors import EsqlInvalid
from entrepot.esql.program import compile_statements, compile_texts
from folding import for_each

from .loaders import LOADERS, as_text, require_loaded_or_refused
from .readers import READERS, require_read_and_written_alike

EXAMPLES = int(os.environ.get("ENTREPOT_FUZZ_EXAMPLES", "3000"))
SLICE = 30
"""So many run with every test."""
HANG_S = 2.0

# --- mutations ---------------------------------------------------------------------------------------

_BYTES = (0x00, 0x01, 0x09, 0x0A, 0x0C, 0x0F, 0x20, 0x22, 0x27, 0x2A, 0x2F, 0x3A, 0x3C, 0x40, 0x7F, 0x80, 0xC0, 0xFF)
_INTEGERS = tuple(
    number.to_bytes(size, order, signed=number < 0)  # type: ignore[arg-type]
    for size in (2, 4)
    for order in ("big", "little")
    for number in (0, 1, -1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)))
)
_PIECES = (
    b"<", b"</a>", b"<!DOCTYPE a>", b"&x;", b"&#0;", b"]]>", b"<![CDATA[", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\u0000",
    b"\\ud800", b"[", b"{", b"}", b"\"", b"'", b"1e999", b"-", b".", b"\r\n", b"\r\n:", b"\r\n-}", b"--edge", b"16R:",
    b"{4:", b"999999999999", b"xmlns=''", b" xmlns:x='urn:x'", b"*", b";", b"&anchor", b"*anchor", b"- ", b": ",
    b"OCCURS 99 ", b"PIC S9(9)V9 COMP-3.", b"REDEFINES ", b"(", b")", b"BEGIN ", b"END ", b"SELECT ", b"/*", b"||",
)  # fmt: skip


@st.composite
def mangled(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A seed with a few changes."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.integers(0, 8))
        length = draw(st.integers(1, 16))
        if kind == 0:
            data = (
                data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
                if at < len(data)
                else data
            )
        elif kind == 1:
            data = data[:at] + bytes([draw(st.sampled_from(_BYTES))]) + data[at + 1 :]
        elif kind == 2:
            data = data[:at] + data[at + length :]
        elif kind == 3:
            data = data[:at] + data[at : at + length] * draw(st.integers(2, 200)) + data[at + length :]
        elif kind == 4:
            number = draw(st.sampled_from(_INTEGERS))
            data = data[:at] + number + data[at + len(number) :]
        elif kind == 5:
            data = data[:at] + draw(st.sampled_from(_PIECES)) + data[at:]
        elif kind == 6:
            other = draw(st.sampled_from(seeds))
            data = data[:at] + other[draw(st.integers(0, len(other))) :]
        elif kind == 7:
            data = data[:at]
        else:
            data = data[:at] + draw(st.binary(max_size=8)) + data[at:]
    return data


def examples(count: int) -> Any:
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


def in_time(act: Callable[[], Any]) -> Any:
    begun = time.process_time()
    try:
        return act()
    finally:
        assert time.process_time() - begun < HANG_S


# --- messages ----------------------------------------------------------------------------------------


def fuzz_format(name: str, count: int) -> None:
    @examples(count)
    @given(mangled(READERS[name].seeds))
    def fuzz(body: bytes) -> None:
        in_time(lambda: require_read_and_written_alike(READERS[name], body))

    fuzz()


@for_each("name", READERS)
def test_mangled_messages_are_refused_or_come_back(name: str) -> None:
    fuzz_format(name, SLICE)


@pytest.mark.torture
@pytest.mark.parametrize("name", READERS)
def test_many_mangled_messages_are_refused_or_come_back(name: str) -> None:
    fuzz_format(name, EXAMPLES)


# --- models ------------------------------------------------------------------------------------------


def fuzz_loader(name: str, count: int) -> None:
    load, seeds = LOADERS[name]
    for seed in seeds:
        load(seed)

    @examples(count)
    @given(mangled(seeds))
    def fuzz(data: bytes) -> None:
        in_time(lambda: require_loaded_or_refused(load, data))

    fuzz()


@pytest.mark.parametrize("name", LOADERS)
def test_mangled_models_are_refused_or_compiled(name: str) -> None:
    fuzz_loader(name, SLICE)


@pytest.mark.torture
@pytest.mark.parametrize("name", LOADERS)
def test_many_mangled_models_are_refused_or_compiled(name: str) -> None:
    fuzz_loader(name, EXAMPLES)


# --- programs ----------------------------------------------------------------------------------------

PROGRAMS = tuple(path.read_bytes() for path in sorted((Path(__file__).parents[1] / "golden/esql").glob("**/*.esql")))
STATEMENTS = (
    b"DECLARE r REFERENCE TO InputRoot.XMLNSC.a; WHILE LASTMOVE(r) DO SET OutputRoot.XMLNSC.b[r.n] = r.x || 'y'; "
    b"MOVE r NEXTSIBLING REPEAT TYPE NAME; END WHILE; SET Environment.q[] = (SELECT T.b AS c FROM InputRoot.XMLNSC.a[] "
    b"AS T WHERE T.b > 1 AND NOT T.c LIKE 'x%'); SET x = CAST(y AS DATE FORMAT 'yyyyMMdd') + INTERVAL '1' DAY;",
    b"CREATE LASTCHILD OF OutputRoot DOMAIN('JSON') NAME 'JSON'; IF a = 1 THEN CALL p(x); ELSE THROW USER EXCEPTION "
    b"VALUES(1); END IF; CASE a WHEN 1 THEN SET b = CASE WHEN TRUE THEN 1 ELSE 2 END; END CASE;",
)


def fuzz_programs(seeds: tuple[bytes, ...], compile_text: Callable[[str], Any], count: int) -> None:
    @examples(count)
    @given(mangled(seeds))
    def fuzz(data: bytes) -> None:
        try:
            in_time(lambda: compile_text(as_text(data)))
        except EsqlInvalid as error:
            for file, line, column, problem, _ in error.mistakes:
                assert file == "f.esql"
                assert line >= 1
                assert column >= 1
                assert problem

    fuzz()


def _file(text: str) -> Any:
    return compile_texts({"f.esql": text})


def _statements(text: str) -> Any:
    return compile_statements(text, "f.esql")


@pytest.mark.parametrize(
    ("seeds", "compile_text"), [(PROGRAMS, _file), (STATEMENTS, _statements)], ids=["files", "statements"]
)
def test_mangled_programs_are_refused_or_compiled(seeds: tuple[bytes, ...], compile_text: Callable[[str], Any]) -> None:
    fuzz_programs(seeds, compile_text, SLICE)


@pytest.mark.torture
@pytest.mark.parametrize(
    ("seeds", "compile_text"), [(PROGRAMS, _file), (STATEMENTS, _statements)], ids=["files", "statements"]
)
def test_many_mangled_programs_are_refused_or_compiled(
    seeds: tuple[bytes, ...], compile_text: Callable[[str], Any]
) -> None:
    fuzz_programs(seeds, compile_text, EXAMPLES)
