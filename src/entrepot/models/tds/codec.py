# SPDX-License-Identifier: Apache-2.0
"""A TDS message, compiled: the whole body is decoded once, read as text, and encoded once.

Positions are counted in characters while a message is read; the byte offset of
an error is computed when there is an error.
"""

from __future__ import annotations

from typing import Any

from entrepot.errors import EntrepotError, MessageTooComplex, MessageUnreadable, MessageUnwritable, ModelNotFound
from entrepot.limits import BODY_BYTES_MAX
from entrepot.models.code_pages import decode, encode
from entrepot.models.element_types import NAME_VALUE
from entrepot.models.logical import MessageSet, TdsFormat
from entrepot.models.mrm import Codec
from entrepot.models.tds.compiler import Compiler
from entrepot.models.tds.flat import flat_row
from entrepot.models.tds.nested import order_of, write_children
from entrepot.models.tds.trouble import Reading, TextMismatch, Unwritten, found
from entrepot.models.tree import Element


def compile_tds(message_set: MessageSet, message_name: str, format_name: str) -> Codec:
    """The codec of one message in one TDS format.

    Raises:
        ModelNotFound: The set has no such message or format.
        ModelInvalid: The model cannot be read or written; says which structure, and why.
    """
    model = message_set.messages.get(message_name)
    if model is None:
        raise ModelNotFound(f"message in set {message_set.name},", message_name, tuple(message_set.messages))
    tds = message_set.formats.get(format_name)
    if not isinstance(tds, TdsFormat):
        known = tuple(name for name, one in message_set.formats.items() if isinstance(one, TdsFormat))
        raise ModelNotFound(f"TDS format in set {message_set.name},", format_name, known)
    return TdsCodec(message_set, message_name, format_name, tds)


class TdsCodec:
    """Reads and writes one message of a set in one TDS format."""

    __slots__ = ("_body", "_ccsid", "_flat", "_name", "_order")

    def __init__(self, message_set: MessageSet, message_name: str, format_name: str, tds: TdsFormat) -> None:
        structure = message_set.messages[message_name].structure
        self._name = message_name.rpartition("}")[2]
        self._ccsid = tds.ccsid
        self._body = Compiler(message_set, tds, format_name).message(structure, self._name)
        self._order = order_of(structure)
        self._flat = flat_row(structure, tds, format_name)

    def parse(self, body: bytes, ccsid: int, encoding: int) -> list[Element]:
        """The elements of a message, in order, without a parent.

        Raises:
            MessageUnreadable: Says path and byte offset, what was expected and what is there.
            MessageTooComplex: Its choices need more attempts than a message of its size may cost.
        """
        ccsid = self._ccsid or ccsid
        text = decode(body, ccsid, self._name, domain="TDS", encoding=encoding)
        flat = None if self._flat is None else self._flat.read(text)
        if flat is not None:
            return [Element(name, value, NAME_VALUE) for name, value in flat.items()]
        end = len(text)
        out: list[Element] = []
        reading = Reading(end)
        try:
            position = self._body.read(text, 0, end, out, reading)
            if position != end:
                raise self._left_over(text, position, end, reading)
        except TextMismatch as trouble:
            path = ".".join((self._name, *reversed(trouble.steps)))
            before = encode(text[: trouble.position], ccsid, domain="TDS", encoding=encoding)
            error = MessageTooComplex if trouble.final else MessageUnreadable
            raise error("TDS", path, min(len(before), len(body)), trouble.problem) from None
        return out

    def flat_values(self, body: bytes, ccsid: int, encoding: int) -> dict[str, Any] | None:
        """The values by name of a message without structures inside; None for all others."""
        if self._flat is None:
            return None
        try:
            text = decode(body, self._ccsid or ccsid, self._name, domain="TDS", encoding=encoding)
        except EntrepotError:
            return None
        values: dict[str, Any] | None = self._flat.read(text)
        return values

    def flat_bytes(self, values: dict[str, Any], ccsid: int, encoding: int) -> bytes | None:
        """The bytes of such a message; None where its elements have to be written one by one, or say what is wrong."""
        if self._flat is None:
            return None
        try:
            text: str | None = self._flat.write(list(values), list(values.values()))
        except ValueError:
            # A number of more digits than Python writes; the general way says which.
            return None
        if text is None or len(text) > BODY_BYTES_MAX:
            return None
        return encode(text, self._ccsid or ccsid, self._name, domain="TDS", encoding=encoding)

    def _left_over(self, text: str, position: int, end: int, reading: Reading) -> TextMismatch:
        if reading.stopped >= position:
            problem = f"{reading.expectation()}, not {found(text, reading.stopped, end)}"
            return TextMismatch(reading.stopped, problem)
        return TextMismatch(position, f"the message should end here, but there is {found(text, position, end)}")

    def render(self, message: Element, ccsid: int, encoding: int) -> bytes:
        """The bytes of a message whose elements are the children of `message`.

        Raises:
            MessageUnwritable: Says the path, and what is missing, too long, too many or unknown.
        """
        children = message.children
        values = {child.key: child.value for child in children} if self._flat is not None else {}
        if values and len(values) == len(children):
            written = self.flat_bytes(values, ccsid, encoding)
            if written is not None:
                return written
        pieces: list[str] = []
        try:
            write_children(message, self._body.write, self._order, pieces, {})
        except Unwritten as trouble:
            path = ".".join((self._name, *(name.rpartition("}")[2] for name in reversed(trouble.steps))))
            raise MessageUnwritable("TDS", path, trouble.problem) from None
        if sum(map(len, pieces)) > BODY_BYTES_MAX:
            raise MessageUnwritable("TDS", self._name, f"the message is longer than {BODY_BYTES_MAX} bytes")
        return encode("".join(pieces), self._ccsid or ccsid, self._name, domain="TDS", encoding=encoding)
