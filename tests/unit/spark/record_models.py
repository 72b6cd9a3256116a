# SPDX-License-Identifier: Apache-2.0
"""Random models of fixed length, records that they mostly can read, and what the tree says of each record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from entrepot.message import Message
from entrepot.models.cwf.strings import code_page
from entrepot.models.logical import (
    Composition,
    CwfFormat,
    MessageFormat,
    MessageModel,
    MessageSet,
    Simple,
    Structure,
    StructureMember,
    ValueType,
)
from entrepot.spark.tables.payload import PayloadColumns
from entrepot.spark.tables.payload_fields import MISFITS, misfits
from unit.models.cwf_models import choice, group, simple


class Dice(Random):
    """What a model and its records are drawn by."""

    wild = False
    """Fields may hold what their model does not allow."""
    little = False
    """Numbers have their lowest byte first."""


MakeBytes = Callable[[Dice, str], bytes]
"""A member's bytes in a code page that Python calls so."""
SETTINGS = [(1208, 546), (819, 273), (500, 785), (37, 0x211), (1047, 0x122), (1252, 0x222), (273, 0x111), (932, 273)]
NUMBERS = (ValueType.INTEGER, ValueType.DECIMAL, ValueType.FLOAT)


def payload_of(*members: StructureMember, name: str = "S") -> PayloadColumns:
    message = MessageModel("M", Structure("M", members))
    return PayloadColumns(MessageFormat(MessageSet(name, {"M": message}, {"CWF1": CwfFormat()}, "s.yaml"), "M", "CWF1"))


def read_one_by_one(payload: PayloadColumns, messages: Sequence[Message]) -> tuple[list[Any], list[str | None]]:
    """Rows and errors as the tree of each message gives them, without anything that reads several at once."""
    kind = payload.columns[0].type
    rows: list[Any] = []
    errors: list[str | None] = []
    for message in messages:
        row, error = payload.read(message)
        try:
            pa.array([row], kind)
        except MISFITS:
            (_, problem), row = next(misfits([row], kind)), None
            error = f"a value fits no column: {problem}"
        rows.append(pa.array([row], kind).to_pylist()[0])
        errors.append(error)
    return rows, errors


def first_difference(payload: PayloadColumns, messages: Sequence[Message]) -> str:
    """What columns have otherwise than trees; nothing where they agree. Minus zero is not zero, and 1.0 not 1.00."""
    values, errors = payload.arrays(messages)
    values.validate(full=True)
    expected_rows, expected_errors = read_one_by_one(payload, messages)
    found = list(zip(values.to_pylist(), errors.to_pylist(), strict=True))
    for message, *pair in zip(messages, found, zip(expected_rows, expected_errors, strict=True), strict=True):
        if repr(pair[0]) != repr(pair[1]):
            return f"{message.body.hex()} in {message.ccsid}, {message.encoding}: {pair[0]} and not {pair[1]}"
    return ""


# --- members ---------------------------------------------------------------------------------------------


def random_members(random: Dice, prefix: str = "F", depth: int = 2) -> tuple[list[StructureMember], list[MakeBytes]]:
    members: list[StructureMember] = []
    makers: list[MakeBytes] = []
    for number in range(random.randint(1, 4)):
        member, make = _member(random, f"{prefix}{number}", depth)
        members.append(member)
        makers.append(make)
    return members, makers


def _member(random: Dice, name: str, depth: int) -> tuple[StructureMember, MakeBytes]:
    shape = random.choice(["one", "one", "one", "table", "structure", "rows", "choice"] if depth else ["one", "table"])
    gaps = {"skip_before": random.choice([0, 0, 1]), "skip_after": random.choice([0, 0, 2])}
    if shape in ("one", "table"):
        count = random.randint(2, 3) if shape == "table" else 1
        member, make = _field(random, name, occurs_most=count, **gaps)
        return member, _spaced(make, gaps, count)
    members, makers = random_members(random, f"{name}_", depth - 1)
    if shape == "choice":
        named = random.random() < 0.5
        member = group(name if named else "", *members, composition=Composition.CHOICE, **gaps)
        if not named:
            member = choice(*members, **gaps)
        return member, _spaced(_longest(makers), gaps, 1)
    count = random.randint(2, 3) if shape == "rows" else 1
    member = group(name, *members, most=count, **gaps)
    return member, _spaced(lambda random, codec: b"".join(make(random, codec) for make in makers), gaps, count)


def _spaced(make: MakeBytes, gaps: dict[str, int], count: int) -> MakeBytes:
    before, after = gaps["skip_before"] * b"?", gaps["skip_after"] * b"?"
    return lambda random, codec: b"".join(before + make(random, codec) + after for _ in range(count))


def _longest(makers: list[MakeBytes]) -> MakeBytes:
    def make(random: Dice, codec: str) -> bytes:
        sizes = [len(one(random, codec)) for one in makers]
        return random.choice(makers)(random, codec).ljust(max(sizes), b"\x40")

    return make


def _field(random: Dice, name: str, **said: Any) -> tuple[StructureMember, MakeBytes]:
    kind = random.choice(list(_FIELDS))
    content, storage, length, physical, make = _FIELDS[kind](random)
    policy = random.choice(["none"] * 4 + ["fill", "logical" if content.type in NUMBERS else "fill"])
    null = random.choice([b"\x40", b"\xff"])
    if policy == "fill":
        physical |= {"null_policy": "fill", "null_value": f"0x{null.hex()}"}
    elif policy == "logical":
        physical |= {"null_policy": "logical", "null_value": "0"}

    def sometimes_null(random: Dice, codec: str) -> bytes:
        raw = make(random, codec)
        if random.random() < 0.1 and (policy == "fill" or random.wild):
            return (random.choice([null, b"\0"]) if random.wild else null) * len(raw)
        return raw

    return simple(name, content, storage, length, **physical, **said), sometimes_null


def _any_bytes(length: int) -> MakeBytes:
    return lambda random, codec: random.randbytes(length)


def _text(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    length, justify = random.randint(1, 12), random.choice(["left", "left", "right", "none"])
    padding = random.choice([" ", " ", "", "*", "0x00", "0xFF", "x"])
    values = random.choice([(), (), ("A", "AB")])

    def make(random: Dice, codec: str) -> bytes:
        pad = b"\x00" if padding == "0x00" else (padding or " ").encode(codec, "replace")[:1]
        word = random.choice(["A", "AB", "x*x ", "", "7 x 9", "ok\0", "Zoë", "Straße"][: None if length > 6 else 6])
        text = word.encode(codec, "replace")[:length]
        return text.rjust(length, pad) if justify == "right" else text.ljust(length, pad)

    return Simple(ValueType.STRING, values=values), "string", length, {"justify": justify, "padding": padding}, make


def _decimals(random: Dice, wanted: ValueType) -> int:
    return random.choice([0, 0, -1, -3, -20] if wanted is ValueType.INTEGER else [0, 0, 2, 2, 5, -2, 17, 25])


def _integer(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    wanted, length = random.choice(NUMBERS), random.randint(1, 8)
    physical = {"signed": random.choice([True, False]), "decimals": _decimals(random, wanted)}
    values = random.choice([(), (), ("1", "7")])

    def make(random: Dice, codec: str) -> bytes:
        if random.wild or random.random() < 0.5:
            return random.randbytes(length)
        raw = random.choice([b"\1", b"\7", b"\x12\x34"[:length], b"\x80\xff"[-length:]]).rjust(length, b"\0")
        return raw[::-1] if random.little else raw

    return Simple(wanted, values=values), "integer", length, physical, make


def _packed(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    wanted, length = random.choice(NUMBERS), random.choice([1, 2, 3, 5, 9, 10, 11, 16, 20])
    physical = {"signed": random.choice([True, True, False]), "decimals": _decimals(random, wanted)}

    def make(random: Dice, codec: str) -> bytes:
        digits = str(random.randrange(10 ** random.randint(0, 2 * length - 1))).zfill(2 * length - 1)
        if random.random() < 0.2:
            digits = "0" * len(digits)
        digits = digits if random.wild else digits[-18:].zfill(len(digits))
        sign = random.choice("cccfddabe7" if random.wild else "cfddabe" if physical["signed"] else "fface")
        raw = bytes.fromhex(digits + sign)
        return raw[::-1] if random.little else raw

    return Simple(wanted), "packed", length, physical, make


def _external(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    wanted, length = random.choice(NUMBERS), random.choice([1, 2, 4, 7, 18, 19, 25])
    sign = random.choice(["trailing", "leading", "trailing separate", "leading separate"])
    signed = random.choice([True, True, False])
    length += signed and sign.endswith("separate")
    physical: dict[str, Any] = {"signed": signed, "decimals": _decimals(random, wanted), "sign": sign}
    physical |= {"ebcdic_sign": random.choice([True, False])} | random.choice(
        [{}, {}, {"justify": "right", "padding": " "}]
    )

    def make(random: Dice, codec: str) -> bytes:
        room = length - (signed and sign.endswith("separate"))
        digits = str(random.randrange(10 ** random.randint(0, room if random.wild else min(room, 18))))
        written = digits.zfill(room).encode(codec)
        ebcdic = written[:1] >= b"\xf0"
        if not signed:
            return written
        if sign.endswith("separate"):
            mark = random.choice("+--").encode(codec)
            return mark + written if sign.startswith("leading") else written + mark
        place = 0 if sign.startswith("leading") else room - 1
        digit = written[place] & 15
        zoned = (
            random.choice([0xC0, 0xD0, 0xF0, 0xB0, 0xA0]) | digit
            if ebcdic
            else random.choice([0x30 | digit, 0x70 | digit, b"{ABCDEFGHI"[digit], b"}JKLMNOPQR"[digit]])
        )
        return written[:place] + bytes([zoned]) + written[place + 1 :]

    return Simple(wanted), "external", length, physical, make


def _float(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    length, storage = random.choice([4, 8]), random.choice(["float", "float", "hexfloat"])
    wanted = random.choice([ValueType.FLOAT, ValueType.FLOAT, ValueType.DECIMAL])

    def make(random: Dice, codec: str) -> bytes:
        if random.wild or random.random() < 0.2:
            return random.randbytes(length)
        return bytes([random.choice([0x41, 0xC1, 0x42]), 0x10 * random.randint(1, 9)]).ljust(length, b"\0")

    return Simple(wanted), storage, length, {}, make


def _boolean(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    length = random.choice([0, 1, 2])
    most = length or 4
    return (
        Simple(ValueType.BOOLEAN),
        "boolean",
        length,
        {},
        lambda random, codec: random.choice([b"\0", b"\1", b"\2"][: 2 + random.wild]).rjust(most, b"\0"),
    )


def _binary(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    length = random.randint(1, 9)
    return Simple(ValueType.BINARY), "binary", length, {}, _any_bytes(length)


def _moment(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    wanted, pattern, texts = random.choice([
        (ValueType.DATE, "yyyyMMdd", ["20240229", "19991231", "20230229"]),
        (ValueType.DATETIME, "yyyyMMddHHmmss", ["20240229120000", "19991231235959", "20240229250000"]),
        (ValueType.TIME, "HHmmss", ["120059", "000000", "236000"]),
        (ValueType.INTEGER, "", ["000042", "-7    ", "1.5", "xyz"]),
    ])  # fmt: skip
    length = len(texts[0])
    return (
        Simple(wanted),
        "string",
        length,
        {"format": pattern},
        lambda random, codec: random.choice(texts if random.wild else texts[:2]).ljust(length).encode(codec),
    )


def _packed_date(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    days = ["2024060c", "1999365f", "2023366c", "2024001d"]
    return (
        Simple(ValueType.DATE),
        "packed",
        4,
        {"format": "yyyyDDD"},
        lambda random, codec: bytes.fromhex(random.choice(days if random.wild else days[:2])),
    )


def _counted_moment(random: Dice) -> tuple[Simple, str, int, dict[str, Any], MakeBytes]:
    length = random.choice([4, 8])

    def make(random: Dice, codec: str) -> bytes:
        if random.wild:
            return random.randbytes(length)
        raw = random.randrange(10**9).to_bytes(length, "big")
        return raw[::-1] if random.little else raw

    return Simple(ValueType.DATETIME), "integer", length, {}, make


_FIELDS: dict[str, Callable[[Dice], tuple[Simple, str, int, dict[str, Any], MakeBytes]]] = {
    "text": _text,
    "text again": _text,
    "integer": _integer,
    "packed": _packed,
    "external": _external,
    "float": _float,
    "boolean": _boolean,
    "binary": _binary,
    "moment": _moment,
    "packed date": _packed_date,
    "counted moment": _counted_moment,
}


# --- messages --------------------------------------------------------------------------------------------


def random_messages(random: Dice, makers: Sequence[MakeBytes], count: int) -> list[Message]:
    """Records in two settings; some are damaged, too short or too long, or have a header before them."""
    messages: list[Message] = []
    settings = random.sample(SETTINGS, 2)
    damage, wildness = random.choice([0.0, 0.05, 0.5]), random.choice([0.0, 0.05, 0.5])
    for _ in range(count):
        ccsid, encoding = settings[random.random() < 0.3]
        page = code_page(ccsid, encoding)
        random.wild, random.little = random.random() < wildness, encoding & 15 == 2
        body = bytearray(b"".join(make(random, page.codec) for make in makers))
        if random.random() < damage:
            body[random.randrange(len(body))] = random.randrange(256)
        if random.random() < damage / 10:
            body = random.choice([body[:-1], body + b" ", bytearray()])
        message_format = random.choice(["MQHRF2", "MQIMS   ", "MQSTR"]) if random.random() < 0.02 else ""
        messages.append(Message(bytes(body), ccsid=ccsid, encoding=encoding, format=message_format))
    return messages
