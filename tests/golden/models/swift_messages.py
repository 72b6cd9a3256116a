# SPDX-License-Identifier: Apache-2.0
"""SWIFT messages for tests and measurements: realistic ones of a wanted size, and valid ones at random.

`mt543(6449)` is the message that throughput is measured with: all sequences A to
F, several of them repeated. `random_message` follows the rules of any message,
so it meets options and repetitions that nobody would think of.
"""

from __future__ import annotations

from random import Random

from entrepot.models.swift.field_formats import FieldFormat
from entrepot.models.swift.format_notation import Item, Line, Lines, Literal, Maybe, Part, Unit, can_be_absent
from entrepot.models.swift.rules import FieldRule, SequenceRule, message_rule

HEAD = "{1:F01BANKBEBBAXXX2222123456}{2:I%sBANKDEFFXXXXN}{3:{108:MUR0000000000001}}"
TAIL = "{5:{MAC:75D138E4}{CHK:123456789ABC}}"

_PARTIES = ("DEAG//BANKDEFFXXX", "SELL//CUSTGB2LXXX", "PSET//CEDELULL", "REAG//AGNTUS33", "BUYR//FUNDLULLXXX")
_AMOUNTS = (
    "ACRU",
    "CHAR",
    "COUN",
    "DEAL",
    "EXEC",
    "LOCL",
    "LOCO",
    "OTHR",
    "REGF",
    "SETT",
    "STAM",
    "TRAX",
    "VATA",
    "WITH",
)


def framed(number: str, lines: list[str]) -> bytes:
    """A whole message around the fields of block 4."""
    text = "".join(f"\r\n:{line}" for line in lines)
    return f"{HEAD % number}{{4:{text}\r\n-}}{TAIL}".encode("ascii")


def mt543(size: int = 0, *, parties: int = 5, amounts: int = 3, links: int = 2, breaks: int = 2) -> bytes:
    """Deliver against payment; with `size` exactly so many bytes long."""
    message = framed("543", _mt543_lines(parties, amounts, links, breaks, []))
    if not size:
        return message
    while len(message) < size - 700:
        amounts, parties, links, breaks = amounts + 1, parties + 1, links + 1, breaks + 1
        message = framed("543", _mt543_lines(parties, amounts, links, breaks, []))
    narratives = _narratives(size - len(message))
    message = framed("543", _mt543_lines(parties, amounts, links, breaks, narratives))
    assert len(message) == size, (len(message), size)
    return message


def _narratives(missing: int) -> list[int]:
    """Lengths of the lines of two narrative fields that take so many bytes: up to ten lines of up to 35 each."""
    opening = len("\r\n:70E::SPRO//")
    lengths: list[int] = []
    while missing:
        price = opening if len(lengths) in (0, 10) else 2
        # Enough has to be left for another line, or nothing at all.
        length = min(35, missing - price)
        if 0 < missing - price - length <= opening:
            length -= opening
        lengths.append(length)
        missing -= price + length
    assert len(lengths) <= 20 and all(length > 0 for length in lengths), lengths
    return lengths


def _mt543_lines(parties: int, amounts: int, links: int, breaks: int, narratives: list[int]) -> list[str]:
    lines = ["16R:GENL", "20C::SEME//DAP2024010300001", "23G:NEWM", "98C::PREP//20240103101530"]
    lines += ["99B::SETT//001", "99B::TOSE//002"]
    for number in range(links):
        lines += ["16R:LINK", "22F::LINK//WITH", "13A::LINK//541", f"20C::RELA//REF{number:08}", "16S:LINK"]
    lines += ["16S:GENL", "16R:TRADDET", "94B::TRAD//EXCH/XETRA", "98A::SETT//20240105", "98C::TRAD//20240103093000"]
    lines += [
        "90B::DEAL//ACTU/EUR45,37",
        "99A::DAAC//042",
        "35B:ISIN DE0005140008\r\nDEUTSCHE BANK AG\r\nNAMENS-AKTIEN O.N.",
    ]
    lines += ["16R:FIA", "94B::PLIS//EXCH/XFRA", "22F::MICO//A001", "12C::CLAS//ESVUFR", "11A::DENO//EUR"]
    lines += ["98A::COUP//20240630", "98A::MATU//20301231", "92A::INTR//4,25", "13A::COUP//005", "17B::CALL//N"]
    lines += ["90A::INDC//PRCT/99,87", "36B::MINO//UNIT/1,", "70E::FIAN//ORDINARY SHARES\r\nREGISTERED", "16S:FIA"]
    lines += ["22F::PRIR//0003", "22F::TTCO//CCPN", "22F::TTCO//XCPN", "25D::MTCH//MACH"]
    for at in range(0, len(narratives), 10):
        text = "\r\n".join(("NARRATIVE OF THE SETTLEMENT DETAILS" * 2)[:length] for length in narratives[at : at + 10])
        lines.append(f"70E::{('SPRO', 'FXIN')[at // 10]}//{text}")
    lines += ["16S:TRADDET", "16R:FIAC", "36B::SETT//UNIT/12500,", "70D::DENC//10 X 1000", "13B::CERT//CERT0001"]
    lines += ["95P::ACOW//FUNDLULLXXX", "97A::SAFE//000123456789", "97E::CASH//DE89370400440532013000"]
    lines += ["94F::SAFE//NCSD/DAKVDEFFXXX"]
    for number in range(breaks):
        lines += ["16R:BREAK", f"13B::LOTS//LOT{number:05}", "36B::LOTS//UNIT/100,", "98A::LOTS//20230104"]
        lines += ["90B::LOTS//ACTU/EUR41,02", "22F::PRIC//AVER", "16S:BREAK"]
    lines += [
        "16S:FIAC",
        "16R:REPO",
        "98A::TERM//20240405",
        "22F::RERT//FIXE",
        "20C::REPO//REPO20240103",
        "92A::REPO//3,95",
    ]
    lines += ["99B::TOCO//001", "19A::TRTE//EUR571234,56", "70C::SECO//SECOND LEG AS AGREED", "16S:REPO"]
    lines += ["16R:SETDET", "22F::SETR//TRAD", "22F::STCO//NPAR", "22F::RTGS//YRTG"]
    for number in range(parties):
        lines += ["16R:SETPRTY", f"95P::{_PARTIES[number % len(_PARTIES)]}", f"97A::SAFE//ACCOUNT{number:05}"]
        lines += [f"20C::PROC//PROC{number:05}", "70E::DECL//BENEFICIAL OWNER DECLARED", "16S:SETPRTY"]
    lines += ["16R:CSHPRTY", "95P::ACCW//CASHDEFF", "97A::CASH//98765432", "16S:CSHPRTY"]
    lines += [
        "16R:CSHPRTY",
        "95Q::BENM//FUND HOLDING S.A.\r\n12 RUE DE LA GARE\r\nLUXEMBOURG",
        "97E::CASH//LU280019400644750000",
    ]
    lines += ["70C::PACO//ATTN SETTLEMENTS", "16S:CSHPRTY"]
    for number in range(amounts):
        lines += ["16R:AMT", "17B::ACRU//N", f"19A::{_AMOUNTS[number % len(_AMOUNTS)]}//EUR{567125 + number},25"]
        lines += ["98A::VALU//20240105", "92B::EXCH//EUR/USD/1,0945", "16S:AMT"]
    lines += ["16R:NTWKFEE", "35B:/XX/ETH", "36D::FEEA//FAMT/0,000123", "16S:NTWKFEE", "16S:SETDET"]
    lines += ["16R:OTHRPRTY", "95R::MEOR/DAKV/7003", "97A::SAFE//7003000", "20C::PROC//OTHER1", "16S:OTHRPRTY"]
    lines += [
        "16R:OTHRPRTY",
        "95L::ALTE//529900T8BM49AURSDO55",
        "95P::EXCH//XETRDEFF",
        "70D::REGI//REGISTRAR",
        "16S:OTHRPRTY",
    ]
    return lines


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
    if isinstance(item, Literal):
        return item.text
    if isinstance(item, Maybe):
        return _items(random, item.items) if sure or random.random() < 0.5 else ""
    if isinstance(item, Part):
        return _items(random, item.items)
    if isinstance(item, Lines):
        return "\r\n".join(_items(random, item.items) for _ in range(random.randint(1, item.count)))
    return _unit(random, item)


def _unit(random: Random, unit: Unit) -> str:
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
