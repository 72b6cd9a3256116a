# SPDX-License-Identifier: Apache-2.0
"""A message of a set in CWF: bytes to elements and back.

The plan is made once. Steps are made for each pair of code page and encoding
that messages come with, and kept: most queues have one or two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from entrepot.errors import MessageUnreadable, MessageUnwritable, ModelInvalid, ModelNotFound
from entrepot.models.cwf.byte_orders import ByteOrders
from entrepot.models.cwf.fields import Setting
from entrepot.models.cwf.groups import ElementContent
from entrepot.models.cwf.layout import LayoutBuilder
from entrepot.models.cwf.plan import GroupPlan, Planner
from entrepot.models.cwf.steps import PROBLEMS, Unreadable, Unwritable
from entrepot.models.cwf.strings import code_page
from entrepot.models.logical import CwfFormat, MessageSet
from entrepot.models.tree import Element

if TYPE_CHECKING:
    from entrepot.models.cwf.columns import RecordColumns

SETTINGS_KEPT = 64
"""Pairs of code page and encoding; a sender that makes up more of them must not fill the memory."""

CHECKED_WITH = (1208, 273)
"""Code page and encoding with which a model is laid out when it is compiled, so that its mistakes come early."""


class CwfCodec:
    """One message in CWF."""

    def __init__(self, file: str, plan: GroupPlan, slots: int, physical: CwfFormat) -> None:
        self._file = file
        self.plan = plan
        self._slots = slots
        self._format = physical
        self._contents: dict[tuple[int, int], ElementContent] = {}
        self._columns: dict[tuple[int, int], RecordColumns | None] = {}

    def parse(self, body: bytes, ccsid: int, encoding: int) -> list[Element]:
        """
        Raises:
            MessageUnreadable: Says path and offset.
            CodePageUnknown
        """
        content = self._contents.get((ccsid, encoding))
        if content is None:
            try:
                content = self._lay_out(ccsid, encoding)
            except ModelInvalid as error:
                raise MessageUnreadable("CWF", self.plan.name, 0, error.problem) from None
        try:
            elements, end = content.read(body, 0, [None] * self._slots)
        except Unreadable as error:
            raise MessageUnreadable("CWF", self._path(error.names), error.offset, error.problem) from None
        if end < len(body):
            problem = f"the message goes on for {len(body) - end} bytes after its last element"
            raise MessageUnreadable("CWF", self.plan.name, end, problem)
        return elements

    def flat_values(self, body: bytes, ccsid: int, encoding: int) -> dict[str, Any] | None:
        """The values by name of a message that is nothing but a run of fields; None for all others."""
        content = self._contents.get((ccsid, encoding))
        run = None if content is None else content.run
        if run is None or run.size != len(body) or not run.distinct:
            return None
        try:
            return run.named_values(body)
        except PROBLEMS:
            return None

    def flat_bytes(self, values: dict[str, Any], ccsid: int, encoding: int) -> bytes | None:
        """The bytes of such a message; None where its elements have to be written one by one, or say what is wrong."""
        content = self._contents.get((ccsid, encoding))
        run = None if content is None else content.run
        if run is None or run.compiled is None or run.slotted or list(values) != run.names:
            return None
        try:
            written: bytes | None = run.compiled.write(list(values.values()))
        except PROBLEMS:
            return None
        return written

    def render(self, message: Element, ccsid: int, encoding: int) -> bytes:
        """
        Raises:
            MessageUnwritable: Says the path.
            CodePageUnknown
        """
        content = self._contents.get((ccsid, encoding))
        if content is None:
            try:
                content = self._lay_out(ccsid, encoding)
            except ModelInvalid as error:
                raise MessageUnwritable("CWF", self.plan.name, error.problem) from None
        out: list[bytes] = []
        try:
            content.write(message, 0, [None] * self._slots, out)
        except Unwritable as error:
            raise MessageUnwritable("CWF", self._path(error.names), error.problem) from None
        return b"".join(out)

    def _path(self, names: list[str]) -> str:
        return ".".join((self.plan.name, *reversed(names)))

    def _lay_out(self, ccsid: int, encoding: int) -> ElementContent:
        """
        Raises:
            ModelInvalid: The model is wrong; or, once it was checked, not to be had in this code page or encoding.
            CodePageUnknown
        """
        content = self.builder(ccsid, encoding).content(self.plan, 0)
        if len(self._contents) >= SETTINGS_KEPT:
            self._contents.clear()
        self._contents[ccsid, encoding] = content
        return content

    def columns(self, ccsid: int, encoding: int) -> RecordColumns | None:
        """How whole batches of records are read at once, which needs numpy; None where records have no fixed length."""
        try:
            return self._columns[ccsid, encoding]
        except KeyError:
            pass
        from entrepot.models.cwf.columns import record_columns

        if len(self._columns) >= SETTINGS_KEPT:
            self._columns.clear()
        found = self._columns[ccsid, encoding] = record_columns(self, ccsid, encoding)
        return found

    def builder(self, ccsid: int, encoding: int) -> LayoutBuilder:
        """What lays the message out for a code page and encoding.

        Raises:
            CodePageUnknown
        """
        return LayoutBuilder(self._file, Setting(code_page(ccsid, encoding), ByteOrders(encoding), self._format))

    def check(self) -> None:
        """
        Raises:
            ModelInvalid: The model says what cannot be.
        """
        self._lay_out(*CHECKED_WITH)


def compile_cwf(message_set: MessageSet, message_name: str, format_name: str) -> CwfCodec:
    """The codec of a message in a CWF format.

    Raises:
        ModelInvalid: The model says what cannot be; says file and line.
        ModelNotFound: The set has no such message or format.
    """
    message = message_set.messages.get(message_name)
    if message is None:
        raise ModelNotFound(f"message in set {message_set.name},", message_name, tuple(message_set.messages))
    physical = message_set.formats.get(format_name)
    if physical is None:
        raise ModelNotFound(f"format in set {message_set.name},", format_name, tuple(message_set.formats))
    file = message_set.file or message_set.name
    if not isinstance(physical, CwfFormat):
        raise ModelInvalid(file, 0, 1, f"format {format_name} is no CWF")
    planner = Planner(message_set, format_name)
    plan = planner.plan(message.name, message.structure)
    codec = CwfCodec(file, plan, planner.slots, physical)
    codec.check()
    return codec
