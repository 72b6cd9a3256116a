# SPDX-License-Identifier: Apache-2.0
"""The MRM domain: messages read and written by a model, in one of its physical formats.

A codec is compiled from the model when a message first needs it, and kept.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from entrepot.errors import MessageUnreadable, MessageUnwritable, ModelNotFound
from entrepot.models.domains import WholeOnly
from entrepot.models.logical import Format, Kind, MessageFormat, MessageSet
from entrepot.models.tree import Element, Folder


class Codec(Protocol):
    """One message of a set in one format, compiled."""

    def parse(self, body: bytes, ccsid: int, encoding: int) -> list[Element]:
        """The elements of the message, in order, without a parent.

        Raises:
            MessageUnreadable: Says path and offset.
        """

    def render(self, message: Element, ccsid: int, encoding: int) -> bytes:
        """The bytes of a message whose elements are the children of `message`.

        Raises:
            MessageUnwritable: Says the path.
        """


Compile = Callable[[MessageSet, str, str], Codec]

_COMPILERS = {
    Kind.CWF: "entrepot.models.cwf:compile_cwf",
    Kind.TDS: "entrepot.models.tds:compile_tds",
    Kind.XML: "entrepot.models.mrm_xml:compile_xml",
}


class FieldValues(bytes):
    """The values of a message that a program has made, as long as no elements of them are wanted (`Folder.body`).

    The folder is one that a program has made and changed; its first access makes the elements.
    """

    values: dict[str, Any]


def field_values(values: dict[str, Any]) -> FieldValues:
    record = FieldValues()
    record.values = values
    return record


class MrmDomain(WholeOnly):
    name = "MRM"

    def __init__(self) -> None:
        self._codecs: dict[int, tuple[MessageSet, dict[tuple[str, str], Codec]]] = {}

    def parse(self, folder: Folder) -> None:
        record = folder.body
        if type(record) is FieldValues:
            folder.body = None
            folder.fill([Element(name, value) for name, value in record.values.items()])
            return
        wanted = folder.model
        if not isinstance(wanted, MessageFormat):
            problem = "it is not known which message of which set it is, and in which format"
            raise MessageUnreadable("MRM", folder.path(), 0, problem)
        assert folder.body is not None
        folder.fill(self.codec(wanted).parse(folder.body, folder.ccsid, folder.encoding))

    def render(self, folder: Folder) -> bytes:
        wanted = folder.model
        if not isinstance(wanted, MessageFormat):
            problem = "set Properties.MessageSet, MessageType and MessageFormat to say what it is to be"
            raise MessageUnwritable("MRM", folder.path(), problem)
        codec, record = self.codec(wanted), folder.body
        if type(record) is FieldValues and folder._children is None:
            write = getattr(codec, "flat_bytes", None)
            written: bytes | None = None if write is None else write(record.values, folder.ccsid, folder.encoding)
            if written is not None:
                return written
        return codec.render(folder, folder.ccsid, folder.encoding)

    def flat_values(self, folder: Folder) -> dict[str, Any] | None:
        """The values of a message without structures by name, without making its elements.

        None where it is not known to be such a message, or has something wrong: reading it finds out.
        """
        wanted, body = folder.model, folder.body
        if not isinstance(wanted, MessageFormat) or type(body) is not bytes:
            return None
        read = getattr(self.codec(wanted), "flat_values", None)
        return None if read is None else read(body, folder.ccsid, folder.encoding)

    def codec(self, wanted: MessageFormat) -> Codec:
        """The codec of a message in a format, compiled at most once.

        Raises:
            ModelNotFound: The set has no such message or format.
        """
        held = self._codecs.get(id(wanted.set))
        if held is None:
            # The set is kept with its codecs, so that its identity is not given to another one.
            held = self._codecs[id(wanted.set)] = (wanted.set, {})
        codecs = held[1]
        codec = codecs.get((wanted.message, wanted.format))
        if codec is None:
            codec = codecs[wanted.message, wanted.format] = _compile(wanted)
        return codec


def _compile(wanted: MessageFormat) -> Codec:
    if wanted.message not in wanted.set.messages:
        raise ModelNotFound(f"message in set {wanted.set.name},", wanted.message, tuple(wanted.set.messages))
    if wanted.format not in wanted.set.formats:
        raise ModelNotFound(f"format in set {wanted.set.name},", wanted.format, tuple(wanted.set.formats))
    physical: Format = wanted.set.formats[wanted.format]
    module, _, name = (wanted.set.compiler or _COMPILERS[physical.kind]).partition(":")
    compile_codec: Compile = getattr(import_module(module), name)
    return compile_codec(wanted.set, wanted.message, wanted.format)


MRM = MrmDomain()
