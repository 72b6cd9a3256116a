# SPDX-License-Identifier: Apache-2.0
"""The compiled forms of CWF and TDS beside their twins: the same trees, bytes and errors, whatever the bytes are."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from entrepot.compiled import compiled
from entrepot.errors import EntrepotError
from entrepot.esql import compile_statements
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.cwf import compile_cwf, steps
from entrepot.models.logical import MessageSet
from entrepot.models.message_sets import load_set, register_set
from entrepot.models.mrm import Codec
from entrepot.models.notation import read_notation
from entrepot.models.tds import compile_tds, flat
from entrepot.models.tree import Element
from unit.models.test_copybook_golden import read_bytes

pytestmark = pytest.mark.skipif(compiled("cwf") is None or compiled("tds") is None, reason="runs in pure Python")

GOLDEN = Path(__file__).parents[2] / "golden" / "models"
MUTANTS = 100

NOTATION = """
set: twins
formats:
  CWF1: cwf
  TDS1: {kind: tds, separation: tagged delimited, delimiter: "|", tag_separator: "="}
messages:
  Row:
    - name: string(6)
      tag: N
    - small: integer
      tag: S
      cwf: {storage: integer, length: 2}
    - unsigned?: integer
      tag: U
      cwf: {storage: integer, length: 4, signed: false, skip_before: 2, skip_value: "<>"}
    - large: integer
      tag: L
      cwf: {storage: integer, length: 8}
    - single: float
      tag: F
      cwf: {storage: float, length: 4}
    - double: float
      tag: D
    - right: string(5)
      tag: R
      cwf: {justify: right, padding: "*"}
    - starred: string(4)
      tag: P
      cwf: {padding: "*"}
"""

VALUES: tuple[Any, ...] = (
    None, "", "a", "ünf", "|", "=", "12", "too long for any of them", 0, -1, 1, 127, 32767, 32768, -32769, 2**31, 2**32,
    2**63, -(2**63), 2**64, 10**5000, True, 1.5, -0.0, 1e300, 1e-7, math.inf, math.nan, Decimal("1.5"), b"x",
)  # fmt: skip


def twins(make: Callable[[], Codec], monkeypatch: pytest.MonkeyPatch) -> tuple[Codec, Codec]:
    """The compiled form and the one in Python; what a codec lays out late is laid out by each as it was made."""
    with monkeypatch.context() as patch:
        patch.setattr(steps, "_cwf", None)
        patch.setattr(flat, "_tds", None)
        pure = make()
        for encoding in (273, 546, 785):
            for ccsid in (819, 1208, 500):
                outcome(lambda c=ccsid, e=encoding: pure.parse(b"", c, e))
    return make(), pure


def outcome(work: Callable[[], Any]) -> Any:
    """What it gives, or the error with its path and offset."""
    try:
        return work()
    except EntrepotError as error:
        return type(error), str(error)


def shape(elements: list[Element]) -> list[Any]:
    return [(each.key, each.kind, exact(each.value), shape(each.children)) for each in elements]


def exact(value: Any) -> Any:
    return type(value), struct.pack("<d", value) if type(value) is float else value


def mutants(body: bytes, random: Random) -> Iterator[bytes]:
    yield from (body, b"", body + b"x", *(body[:end] for end in range(0, len(body), max(len(body) // 20, 1))))
    for _ in range(MUTANTS):
        changed = bytearray(body)
        for _ in range(random.choice((1, 1, 2, 5))):
            at = random.randrange(len(changed) + 1)
            piece = random.choice((b"|", b"=", b"-", b".", b"\xff", b"\0", b" ", b"9", random.randbytes(4)))
            changed[at : at + random.choice((0, len(piece)))] = piece
        yield bytes(changed)


def set_of_twins() -> MessageSet:
    return register_set(read_notation(NOTATION, "twins.yaml"))


def row(**values: Any) -> Element:
    message = Element("message")
    given = {"name": "anna", "small": -5, "unsigned": 7, "large": 2**40, "single": 1.5, "double": 2.25, "right": "r"}
    for name, value in (given | {"starred": "s*t"} | values).items():
        message.add(name, value)
    return message


CODECS: dict[str, tuple[Callable[[], Codec], bytes]] = {
    "CWF": (lambda: compile_cwf(set_of_twins(), "Row", "CWF1"), b""),
    "TDS": (lambda: compile_tds(set_of_twins(), "Row", "TDS1"), b"N=anna|S=-5|U=7|L=99|F=1.5|D=2.25|R=r|P=s*t"),
}


def golden(name: str) -> tuple[MessageSet, bytes]:
    dump = GOLDEN / f"{name}.hex"
    if dump.exists():
        return load_set(GOLDEN / f"{name}.cpy"), read_bytes(dump)[2]
    return load_set(GOLDEN / f"{name}.yaml"), (GOLDEN / f"{name}.bin").read_bytes()


def all_codecs() -> Iterator[tuple[Callable[[], Codec], bytes]]:
    for make, body in CODECS.values():
        yield make, body or make().render(row(), 1208, 546)
    for name in ("synchronized_parts", "warehouse_order", "tds_orders", "tds_records"):
        message_set, body = golden(name)
        for message in message_set.messages:
            for format_name, physical in message_set.formats.items():
                compile_codec = {"cwf": compile_cwf, "tds": compile_tds}.get(physical.kind.value)
                if compile_codec is not None:
                    yield lambda c=compile_codec, s=message_set, m=message, f=format_name: c(s, m, f), body


def test_both_forms_read_the_same_or_refuse_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(17)
    for make, body in all_codecs():
        form, twin = twins(make, monkeypatch)
        for changed in mutants(body, random):
            for ccsid, encoding in ((1208, 546), (819, 273), (500, 785)):
                mine = outcome(lambda f=form, c=changed, p=ccsid, e=encoding: shape(f.parse(c, p, e)))
                assert mine == outcome(lambda t=twin, c=changed, p=ccsid, e=encoding: shape(t.parse(c, p, e))), changed


@pytest.mark.parametrize("kind", CODECS)
def test_both_forms_write_the_same_or_refuse_with_the_same_words(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, twin = twins(CODECS[kind][0], monkeypatch)
    names = [child.key for child in row().children]
    for ccsid, encoding in ((1208, 546), (819, 273), (500, 785)):
        for name in names:
            for value in VALUES:
                message = row(**{name: value})
                mine = outcome(lambda f=form, m=message, p=ccsid, e=encoding: f.render(m, p, e))
                assert mine == outcome(lambda m=message, p=ccsid, e=encoding: twin.render(m, p, e)), (name, value)


@pytest.mark.parametrize("kind", CODECS)
def test_both_forms_write_elements_that_are_missing_doubled_or_out_of_order(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, twin = twins(CODECS[kind][0], monkeypatch)
    random = Random(4)
    for _ in range(200):
        message = Element("message")
        for child in random.choices(row().children, k=random.randrange(12)):
            message.append(child.copy())
        for child in random.sample(row().children, 8) if random.random() < 0.3 else ():
            message.append(child.copy())
        assert outcome(lambda m=message: form.render(m, 1208, 546)) == outcome(
            lambda m=message: twin.render(m, 1208, 546)
        )


# --- many copies as one ----------------------------------------------------------------------------

COPIES = "\n".join(
    f"SET OutputRoot.MRM.{target} = InputRoot.MRM.{source};"
    for target, source in (("name", "name"), ("small", "small"), ("large", "unsigned"), ("double", "single"))
)
HEAD = """SET OutputRoot.Properties = InputRoot.Properties;
SET OutputRoot.MQMD = InputRoot.MQMD;
"""
TAIL = "\nSET OutputRoot.MRM.name = UPPER(OutputRoot.MRM.name);"


def run(statements: str, body: bytes, format_name: str) -> Any:
    """The message that a program makes; its tree where the model has no bytes for it."""
    module = compile_statements(statements, "test")
    came = Message(body)
    outputs = []
    for _ in range(2):  # What a codec lays out late is there the second time.
        assembly = parse_message(
            came, domain="MRM", message_set="twins", message_type="Row", message_format=format_name
        )
        outputs = outcome(lambda a=assembly: module.compute(a))
    if isinstance(outputs, tuple):
        return outputs
    root = outputs[0][1].root
    folder = root.first("MRM")
    return (None if folder is None else shape(folder.children)), outcome(lambda: render_message(root))


@pytest.mark.parametrize("kind", CODECS)
def test_copies_in_a_row_do_what_each_of_them_does(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_of_twins()
    make, body = CODECS[kind]
    body = body or make().render(row(), 1208, 546)
    random = Random(11)
    bodies = list(mutants(body, random))[:60]
    programs = [
        HEAD + COPIES,
        COPIES + TAIL,
        "SET OutputRoot.MRM.right = 'x';" + COPIES,
        COPIES.replace("MRM.", "XMLNSC.a.", 1),
    ]
    together = [[run(program, each, f"{kind}1") for each in bodies] for program in programs]
    monkeypatch.setattr("entrepot.esql.compiler.statements.COPIES_LEAST", 1000)
    alone = [[run(program, each, f"{kind}1") for each in bodies] for program in programs]
    assert together == alone


def test_a_mistake_in_copied_fields_names_the_statement_that_meets_it() -> None:
    """The run is done as one only where it succeeds."""
    set_of_twins()
    body = b"N=anna|S=five"
    given = parse_message(Message(body), domain="MRM", message_set="twins", message_type="Row", message_format="TDS1")
    with pytest.raises(EntrepotError, match="'five' is no INTEGER"):
        compile_statements(HEAD + COPIES, "test").compute(given)


def test_a_record_that_is_only_copied_makes_no_elements() -> None:
    module = compile_statements(HEAD + COPIES, "test")
    set_of_twins()
    given = parse_message(
        Message(b"N=anna|S=-5|U=7|L=99|F=1.5|D=2.25|R=r|P=s*t"),
        domain="MRM",
        message_set="twins",
        message_type="Row",
        message_format="TDS1",
    )
    ((_, made),) = module.compute(given)
    for root in (given.root, made.root):
        folder = root.first("MRM")
        assert folder is not None
        assert folder._children is None
