# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum
import re
import types
import typing
from typing import Any

import msgspec

from entrepot import limits
from entrepot.message import Message
from entrepot.server import session
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.frame import HANDSHAKE_FRAME_BYTES_MAX, HEAD, HEAD_BYTES, VERSION, frame_bytes_max
from entrepot.server.wire.verbs import ASKED, MAGIC, PAYLOADS, Put, Verb, Wanted

from .pages import DOCS, blocks

PAGE = DOCS / "WIRE.md"


def _type_word(form: Any) -> str:
    """A type as the page writes it."""
    if form is Any:
        return "any"
    origin, inner = typing.get_origin(form), typing.get_args(form)
    if origin in (typing.Union, types.UnionType):
        words = [_type_word(each) for each in inner if each is not type(None)]
        return " or ".join(words) + ("?" if type(None) in inner else "")
    if origin is list:
        return f"[{_type_word(inner[0])}]"
    if origin is tuple:
        return f"[{', '.join(map(_type_word, inner))}]"
    if origin is not None:  # dict and Mapping
        return f"{{{_type_word(inner[0])}: {_type_word(inner[1])}}}"
    return "int" if issubclass(form, enum.Enum) else str(form.__name__)


def _default_word(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if value is None:
        return "nil"
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def _fields(payload: type[msgspec.Struct]) -> str:
    """The fields of a structure in their order, as the page writes them."""
    words = []
    types_of = typing.get_type_hints(payload)
    for field in msgspec.structs.fields(payload):
        word = f"{field.name} {_type_word(types_of[field.name])}"
        if field.default is not msgspec.NODEFAULT:
            word += f" = {_default_word(field.default)}"
        elif field.default_factory is not msgspec.NODEFAULT:
            word += f" = {_default_word(field.default_factory())}"
        words.append(word)
    return ", ".join(words)


def _entries() -> dict[str, str]:
    """What the page's lists say: a name, with its number if it is a verb, and its fields."""
    text = "".join(blocks(PAGE, "wire"))
    found = re.findall(r"^(\w+(?: \d+)?)((?:.*\n(?=\s))*.*\n)", text, re.MULTILINE)
    names = [name for name, _ in found]
    assert len(names) == len(set(names)), "said twice"
    return {name: " ".join(fields.split()) for name, fields in found}


def _example() -> bytes:
    """The example's bytes; each line has to say its own offset."""
    data = b""
    (block,) = blocks(PAGE, "hex")
    for line in block.splitlines():
        found = re.fullmatch(r"(\d+) +((?:[0-9a-f]{2} )+) +\S.*", line)
        assert found is not None, line
        assert int(found[1]) == len(data), line
        data += bytes.fromhex(found[2])
    return data


def test_page_says_of_every_verb_its_number_and_its_fields_in_order() -> None:
    true = {f"{verb.name} {verb.value}": _fields(PAYLOADS[verb]) or "–" for verb in Verb}
    true |= {payload.__name__: _fields(payload) for payload in (Message, Wanted)}
    said = _entries()
    assert sorted(said) == sorted(true)
    assert {name: said[name] for name in true if said[name] != true[name]} == {}


def test_page_tells_what_every_verb_means() -> None:
    prose = re.sub(r"^```.*?^```$", "", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [verb.name for verb in Verb if not re.search(rf"\b{verb.name}\b", prose)] == []


def test_every_verb_has_a_payload() -> None:
    assert set(PAYLOADS) == set(Verb)


def test_example_is_what_the_code_reads() -> None:
    data = _example()
    length, verb, number = HEAD.unpack_from(data)
    assert (length, verb, number) == (len(data) - 4, Verb.PUT, 7)
    put = decode(verb, data[HEAD_BYTES:])
    assert isinstance(put, Put)
    assert (put.queue, put.unit, put.persistent, put.priority, put.wait_s) == ("ORDERS", 0, True, None, 0.0)
    assert put.message == Message(b"42 crates", properties={"region": "EU"})


def test_example_is_what_the_code_writes() -> None:
    data = _example()
    assert encode(Verb.PUT, 7, decode(Verb.PUT, data[HEAD_BYTES:])) == data


def test_page_says_version_magic_and_limits() -> None:
    text = PAGE.read_text()
    assert f"**Version {VERSION}.**" in text
    assert f'magic "{MAGIC}"' in text
    assert f"{HANDSHAKE_FRAME_BYTES_MAX // limits.KIB} KiB" in text
    assert f"MAXMSGL of the channel and {frame_bytes_max(0) // limits.MIB} MiB" in text
    rows = {cells[0]: cells[1] for cells in re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", text, re.MULTILINE)}
    assert rows == {
        "units of work open on a connection": f"{limits.UNITS_PER_CONNECTION_MAX:,}",
        "gets of a connection that wait or are not acknowledged": f"{limits.WAITING_PER_CONNECTION_MAX:,}",
        "gets of a connection that wait for groups": f"{session._WAITING_GROUPS_MAX:,}",
        "dynamic queues of a connection": f"{session._TEMPORARY_MAX:,}",
        "consumers of a connection": f"{limits.WAITING_PER_CONNECTION_MAX:,}",
        "credit of a consumer": f"{limits.CONSUMER_CREDIT_MAX:,}",
        "queues that a PUT names": f"{limits.DISTRIBUTION_MAX:,}",
        "bytes of a message, correlation or group id": f"{limits.ID_BYTES_MAX:,}",
        "bytes of a descriptor text in UTF-8": f"{limits.TEXT_BYTES_MAX:,}",
        "properties of a message": f"{limits.PROPERTIES_MAX:,}",
        "bytes of a transaction id": f"{limits.TRANSACTION_ID_BYTES_MAX:,}",
    }


def test_what_verbs_take_and_answer_is_the_table_of_their_definitions() -> None:
    rows = [
        f"| {verb.name} | {each.answer} | {each.when} | {each.authority or '–'} | {each.again.value} |"
        for verb, each in ASKED.items()
        if each.answer
    ]
    begin = "| Asked | Answer | When | Takes authority | Again after a break |\n|---|---|---|---|---|\n"
    assert begin + "\n".join(rows) + "\n\n" in PAGE.read_text()


def test_every_verb_is_asked_or_answered() -> None:
    assert set(PAYLOADS) == set(Verb)
