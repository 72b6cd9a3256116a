# SPDX-License-Identifier: Apache-2.0
"""The SWIFT message that throughput is measured with: all sequences A to F, several of them repeated.

`mt543(6449)` has exactly so many bytes, as the broker document's has.
"""

from __future__ import annotations

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
