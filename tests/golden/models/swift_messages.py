# SPDX-License-Identifier: Apache-2.0
"""SWIFT messages for tests: realistic ones, and valid ones at random.

`mt543` is the workbench's, which measures with it. `random_message` follows
the rules of any message, so it meets options and repetitions that nobody
would think of.
"""

from __future__ import annotations

from random import Random

from entrepot.models.swift.field_formats import FieldFormat
from entrepot.models.swift.format_notation import (
    FormatLiteral,
    FormatPart,
    FormatUnit,
    Item,
    Line,
    Lines,
    Maybe,
    can_be_absent,
)
from entrepot.models.swift.rules import FieldRule, SequenceRule, message_rule
from entrepot.workbench.broker.mt543 import framed, mt543

__all__ = ["framed", "mt103", "mt543", "mt940", "random_message"]


def mt103() -> bytes:
    """A customer's payment with most of its fields."""
    lines = ["20:PAY2024010300001", "13C:/SNDTIME/1015+0100", "23B:CRED", "23E:PHOB/+352 1234567", "26T:K90"]
    lines += [
        "32A:240105EUR1250,5",
        "33B:USD1368,04",
        "36:1,0944",
        "50F:/DE89370400440532013000\r\n1/ANNA MUSTER\r\n2/HAUPTSTRASSE 1",
    ]
    lines[-1] += "\r\n3/DE/FRANKFURT"
    lines += [
        "52A:/C/123456\r\nBANKDEFFXXX",
        "53B:/98765\r\nLUXEMBOURG",
        "54A:CORRUS33",
        "56C:/021000089",
        "57A:BANKFRPP",
    ]
    lines += [
        "59:/FR1420041010050500013M02606\r\nJEAN DUPONT\r\n5 RUE VERTE\r\nPARIS",
        "70:/INV/2023-4711\r\nTHANK YOU",
    ]
    lines += ["71A:SHA", "71F:EUR5,", "71F:EUR2,5", "72:/INS/CORRUS33\r\n//CONTINUED", "77B:/ORDERRES/DE//STEUER"]
    return framed("103", lines)


def mt940() -> bytes:
    """A statement of three entries."""
    lines = ["20:STMT240105", "25P:123456789\r\nBANKDEFFXXX", "28C:5/1", "60F:C240104EUR1000,00"]
    lines += ["61:2401050105D12,50NTRFINV4711//BANKREF1\r\nOFFICE SUPPLIES", "86:PURCHASE\r\nCARD 1234"]
    lines += ["61:240105C100,NMSCNONREF", "61:240105RCE1,2FCHGX", "86:CHARGES REVERSED"]
    lines += [
        "62F:C240105EUR1088,70",
        "64:C240105EUR1088,70",
        "65:C240108EUR900,",
        "65:D240109EUR1,",
        "86:END OF STATEMENT",
    ]
    return framed("940", lines)


# --- at random ----------------------------------------------------------------------------------------

_CHARACTERS = {
    "n": "0123456789",
    "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "c": "ABCXYZ0189",
    "h": "0123456789ABCDEF",
    "e": " ",
    "x": "ABCxyz019/-?:().,'+ ",
}


def random_message(random: Random, name: str) -> bytes:
    """A valid message of that type."""
    lines: list[str] = []
    _fill(random, message_rule(name).text, lines)
    return framed(name[2:], lines)


def _fill(random: Random, sequence: SequenceRule, lines: list[str]) -> None:
    for member in sequence.members:
        high = 3 if member.occurs_max is None else 1
        count = random.randint(member.occurs_min, max(high, member.occurs_min))
        if isinstance(member, FieldRule):
            _fields(random, member, count, lines)
            continue
        for _ in range(count):
            if member.letter:
                lines.append(f"16R:{member.name}")
            _fill(random, member, lines)
            if member.letter:
                lines.append(f"16S:{member.name}")


def _fields(random: Random, rule: FieldRule, count: int, lines: list[str]) -> None:
    assert rule.formats is not None
    if not count:
        return
    if not rule.qualifiers:
        lines.extend(_field(random, rule, random.choice(rule.options), "") for _ in range(count))
        return
    chosen = [each for each in rule.qualifiers if each.mandatory]
    group = [each for each in rule.qualifiers if each.one_of]
    if group:
        chosen.append(random.choice(group))
    others = [each for each in rule.qualifiers if not each.mandatory and not each.one_of]
    if rule.occurs_max is None:
        chosen += random.sample(others, min(len(others), random.randint(0, 3)))
        chosen += [each for each in chosen if each.repeatable and random.random() < 0.3]
    if not chosen:
        chosen = [random.choice(others)]
    random.shuffle(chosen)
    for each in chosen:
        option = random.choice(sorted(each.options & set(rule.options)))
        lines.append(_field(random, rule, option, each.name))


def _field(random: Random, rule: FieldRule, option: str, qualifier: str) -> str:
    assert rule.formats is not None
    tag = rule.number + option
    form = rule.formats[tag]
    for _ in range(100):
        text = _text(random, form)
        if qualifier:
            text = f":{qualifier}{text[5:]}"
        if form.is_valid(text):
            return f"{tag}:{text}"
    raise AssertionError(f"no valid text for {tag} {form.notation}")


def _text(random: Random, form: FieldFormat) -> str:
    lines = [line for line in form.lines if not can_be_absent(line) or random.random() < 0.5]
    return "\r\n".join(_items(random, line, sure=can_be_absent(line)) for line in lines)


def _items(random: Random, items: Line, sure: bool = False) -> str:
    return "".join(_item(random, item, sure) for item in items)


def _item(random: Random, item: Item, sure: bool) -> str:
    if isinstance(item, FormatLiteral):
        return item.text
    if isinstance(item, Maybe):
        return _items(random, item.items) if sure or random.random() < 0.5 else ""
    if isinstance(item, FormatPart):
        return _items(random, item.items)
    if isinstance(item, Lines):
        return "\r\n".join(_items(random, item.items) for _ in range(random.randint(1, item.count)))
    return _unit(random, item)


def _unit(random: Random, unit: FormatUnit) -> str:
    if unit.codes:
        return random.choice(unit.codes)
    if unit.whole == "bic":
        return random.choice(("BANKDEFF", "CUSTGB2LXXX", "AGNTUS33ABC"))
    if unit.whole == "lei":
        return "529900T8BM49AURSDO55"
    if unit.whole.startswith("date"):
        return f"{random.randint(1990, 2050)}{random.randint(1, 12):02}{random.randint(1, 28):02}"[8 - unit.length :]
    if unit.whole.startswith("time"):
        return f"{random.randint(0, 23):02}{random.randint(0, 59):02}{random.randint(0, 59):02}"[: unit.length]
    if unit.charset == "d":
        whole = str(random.randint(0, 10 ** random.randint(1, unit.length - 4)))
        return f"{whole},{'5' * random.randint(0, min(2, unit.length - len(whole) - 1))}"
    length = unit.length if unit.exact else random.randint(1, unit.length)
    text = "".join(random.choice(_CHARACTERS[unit.charset]) for _ in range(length))
    # Lines that begin so would end the field.
    return "A" + text[1:] if text[0] in ":-/ " else text
