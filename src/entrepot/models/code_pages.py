# SPDX-License-Identifier: Apache-2.0
"""Text in the code pages that MQ messages name by number.

`CODE_PAGES` says which numbers (CCSIDs) are known and what Python calls the
codec. The EBCDIC pages that Python lacks are laid over code page 37, of which
each differs in a few places, and are registered as codecs of their own, so
that `codec_of` always gives a name that `str.encode` takes. Number 1200,
UTF-16, has the byte order that the message's encoding says; 0 is the queue
manager's own code page, which here is UTF-8.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any

from entrepot.errors import CodePageUnknown, MessageUnreadable, MessageUnwritable

if TYPE_CHECKING:
    from typing_extensions import Buffer

CODE_PAGES: dict[int, str] = {
    # Unicode
    0: "utf-8",
    1208: "utf-8",
    1209: "utf-8",
    1200: "utf-16-be",
    1201: "utf-16-be",
    1202: "utf-16-le",
    1203: "utf-16-le",
    1204: "utf-16",
    13488: "utf-16-be",
    17584: "utf-16-be",
    1232: "utf-32-be",
    1233: "utf-32-be",
    1234: "utf-32-le",
    1235: "utf-32-le",
    1236: "utf-32",
    # ASCII and ISO 8859
    367: "ascii",
    813: "iso8859-7",
    819: "latin-1",
    912: "iso8859-2",
    913: "iso8859-3",
    914: "iso8859-4",
    915: "iso8859-5",
    916: "iso8859-8",
    919: "iso8859-10",
    920: "iso8859-9",
    921: "iso8859-13",
    923: "iso8859-15",
    1089: "iso8859-6",
    # PC
    437: "cp437",
    720: "cp720",
    737: "cp737",
    775: "cp775",
    850: "cp850",
    852: "cp852",
    855: "cp855",
    856: "cp856",
    857: "cp857",
    858: "cp858",
    860: "cp860",
    861: "cp861",
    862: "cp862",
    863: "cp863",
    864: "cp864",
    865: "cp865",
    866: "cp866",
    869: "cp869",
    874: "cp874",
    1125: "cp1125",
    # Windows, without and with the euro in IBM's numbering
    1162: "cp874",
    1250: "cp1250",
    1251: "cp1251",
    1252: "cp1252",
    1253: "cp1253",
    1254: "cp1254",
    1255: "cp1255",
    1256: "cp1256",
    1257: "cp1257",
    1258: "cp1258",
    5346: "cp1250",
    5347: "cp1251",
    5348: "cp1252",
    5349: "cp1253",
    5350: "cp1254",
    5351: "cp1255",
    5352: "cp1256",
    5353: "cp1257",
    5354: "cp1258",
    # Other single bytes
    878: "koi8-r",
    1051: "hp-roman8",
    1168: "koi8-u",
    1275: "mac-roman",
    # Japanese, Korean and Chinese
    932: "cp932",
    943: "cp932",
    954: "euc_jp",
    5050: "euc_jp",
    33722: "euc_jp",
    949: "cp949",
    1363: "cp949",
    970: "euc_kr",
    950: "cp950",
    1370: "cp950",
    1381: "gb2312",
    1383: "gb2312",
    1386: "gbk",
    1392: "gb18030",
    5488: "gb18030",
    # EBCDIC that Python has
    37: "cp037",
    273: "cp273",
    424: "cp424",
    500: "cp500",
    875: "cp875",
    1026: "cp1026",
    1140: "cp1140",
}
"""CCSID to the name of Python's codec; our own EBCDIC pages are added below."""

_CYRILLIC_PLACES = (
    "42434445464748494A4F5152535455565758595A5F62636465666768696A707172737475767778808A8B8C8D8E8F90"
    "9A9B9C9D9E9FA0AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFCACBCCCDCECFDADBDCDDDEDFE1EAEBECEDEEEFFAFBFCFDFE"
)
_CYRILLIC = "ђѓёєѕіїј[!љњћќўџЪ№Ђ]^ЃЁЄЅІЇЈЉ|ЊЋЌ\xadЎЏюабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРС§ТУЖВЬЫЗШЭЩЧ"

_EBCDIC: dict[int, tuple[int, str, str]] = {
    # number: (the page below, the places that differ, what is there)
    1047: (37, "5FADB0BABBBD", "^[¬Ý¨]"),
    277: (37, "474A4F5A5B5F676A707B7C809C9E9FA1B0BABBC0D0DC", "}#!¤Å^$ø¦ÆØ@{[]ü¢¬|æå~"),
    278: (37, "43474A4F515A5B5F63676A71797B7C9FA1B0B5BABBC0CCD0DCE0EC", "{}§!`¤Å^#$ö\\éÄÖ]ü¢[¬|ä¦å~É@"),
    280: (37, "44484A4F5154585A5F6A797B7C90A1B0B1B5BABBC0CDD0DDE0", "{\\°!]}~é^òù£§[ì¢#@¬|à¦è`ç"),
    284: (37, "494A5A696A7BA1B0BABBBD", "¦[]#ñÑ¨¢^!~"),
    285: (37, "4A5BA1B0B1BABC", "$£¯¢[^~"),
    297: (37, "44484A4F51545A5F6A797B7C90A0A1B0B1B5BABBBDC0D0DDE0", "@\\°!{}§^ùµ£à[`¨¢#]¬|~éè¦ç"),
    871: (37, "4A4F5A5F797C8C8E9C9EA1ACAEB0BABBBEC0CCD0E0EC", "Þ!ÆÖðÐ`{}]ö@[¢¬|\\þ~æ´^"),
    870: (
        37,
        "444647494A4F525457585A5F646667696A7072747778808A8B8C8E8F9A9B9C9EA0AAABACAEAFB0B1B2B3B4B6B7B8B9BABBBC"
        "CDCFDADBDDDFEAEDEFFAFBFD",
        "ţăčć[!ęůľĺ]^˝ĂČĆ|ˇĘŮĽĹ˘śňđřşłńš˛ąŚŇĐŘŞ˙ĄżŢŻžźŽŹŁŃŠŕőĚűťěďŔŐĎŰŤ",
    ),
    1025: (37, _CYRILLIC_PLACES, _CYRILLIC),
    1112: (
        37,
        "42444546484952535455565758626465666869727374757677788C8D8E9A9B9DAAABACADAEB2BCBDBECBCDDBDDDEDFEBEDFBFDFE",
        "šąįūēžęėčų„“ģŠĄĮŪĒŽĘĖČŲĪĻĢāżńŖŗķ”źĀŻŃīŹĶļōņćłś’ŌŅĆŁŚ",
    ),
    1122: (278, "8C8EACAE", "šžŠŽ"),
    1123: (1025, "4363", "ґҐ"),
    # The same pages with the euro where the currency sign was.
    1141: (273, "9F", "€"),
    1142: (277, "5A", "€"),
    1143: (278, "5A", "€"),
    1144: (280, "9F", "€"),
    1145: (284, "9F", "€"),
    1146: (285, "9F", "€"),
    1147: (297, "9F", "€"),
    1148: (500, "9F", "€"),
    1149: (871, "9F", "€"),
    1153: (870, "9F", "€"),
    1154: (1025, "E1", "€"),
    1155: (1026, "9F", "€"),
    1156: (1112, "9F", "€"),
    1157: (1122, "5A", "€"),
    1158: (1123, "E1", "€"),
}
"""EBCDIC pages of our own."""

_PREFIX = "ebcdic_"

CODE_PAGES.update({ccsid: f"{_PREFIX}{ccsid}" for ccsid in _EBCDIC})


def _table(ccsid: int) -> str:
    """The 256 characters of a page."""
    if ccsid not in _EBCDIC:
        return bytes(range(256)).decode(CODE_PAGES[ccsid])
    below, places, characters = _EBCDIC[ccsid]
    table = list(_table(below))
    for place, character in zip(bytes.fromhex(places), characters, strict=True):
        table[place] = character
    return "".join(table)


def _find_codec(name: str) -> codecs.CodecInfo | None:
    number = name.removeprefix(_PREFIX)
    if number == name or not number.isdecimal() or int(number) not in _EBCDIC:
        return None
    decoding = _table(int(number))
    encoding: Any = codecs.charmap_build(decoding)

    def encode_text(text: str, errors: str = "strict") -> tuple[bytes, int]:
        return codecs.charmap_encode(text, errors, encoding)

    def decode_bytes(data: Buffer, errors: str = "strict") -> tuple[str, int]:
        return codecs.charmap_decode(data, errors, decoding)

    return codecs.CodecInfo(encode_text, decode_bytes, name=name)


codecs.register(_find_codec)


def codec_of(ccsid: int, encoding: int = 546) -> str:
    """What Python calls a code page; `encoding` gives 1200 its byte order.

    Raises:
        CodePageUnknown: It is none of `CODE_PAGES`.
    """
    if ccsid == 1200 and encoding & 0xF == 2:
        return "utf-16-le"
    try:
        return CODE_PAGES[ccsid]
    except (KeyError, TypeError):
        raise CodePageUnknown(ccsid) from None


def decode(
    data: bytes | bytearray | memoryview,
    ccsid: int,
    path: str = "",
    offset: int = 0,
    *,
    domain: str = "text",
    encoding: int = 546,
) -> str:
    """The text of some bytes; `path` and `offset` say in an error where the bytes lie in their message.

    Raises:
        MessageUnreadable: A byte that the code page has not.
        CodePageUnknown
    """
    codec = codec_of(ccsid, encoding)
    try:
        return str(data, codec)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        shown = bytes(data[start : start + 4]).hex()
        raise MessageUnreadable(
            domain, path or domain, offset + start, f"X'{shown}' is nothing in code page {ccsid}"
        ) from None


def encode(text: str, ccsid: int, path: str = "", *, domain: str = "text", encoding: int = 546) -> bytes:
    """The bytes of a text.

    Raises:
        MessageUnwritable: A character that the code page has not; says its place in the text.
        CodePageUnknown
    """
    codec = codec_of(ccsid, encoding)
    try:
        return text.encode(codec)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeEncodeError) else 0
        problem = f"code page {ccsid} has no {text[start : start + 1]!r} (character {start + 1})"
        raise MessageUnwritable(domain, path or domain, problem) from None
