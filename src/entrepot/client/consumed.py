# SPDX-License-Identifier: Apache-2.0
"""What deliveries have in common, to threads and to tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from entrepot.compiled import compiled
from entrepot.errors import InvalidArgument
from entrepot.limits import TEXT_BYTES_MAX
from entrepot.message import Message


class ConsumedMessage(Message, frozen=True, array_like=True, gc=False):
    """A message, and who brought it as the how manieth."""

    _source: Any = None
    _number: int = 0

    @property
    def message(self) -> Message:
        """The plain message."""
        return Message(*astuple(self)[:_FIELDS])

    def __reduce__(self) -> Any:
        return Message, astuple(self)[:_FIELDS]

    def __repr__(self) -> str:
        return repr(self.message).replace("Message", type(self).__name__, 1)


_FIELDS = len(Message.__struct_fields__)


def delivered(kind: Any, message: Message, source: Any, number: int) -> Any:
    """A message as a delivery of `kind`."""
    return kind(*astuple(message)[:_FIELDS], source, number)


class Turns:
    """The usual turn of a loop over messages that came ahead; it has a compiled form."""

    _incoming: Any
    _number: int
    _at_hand: bool
    _closed: bool

    def _used(self) -> bool:
        """Settle the message at hand; False, and nothing is done, when that takes more.

        It does when the server has to hear how far the consumer has come, or when there is no read-ahead.
        """
        ahead = None if self._incoming is None else self._incoming.ahead
        if ahead is None or ahead.is_lost or ahead.given + 1 - ahead.told >= ahead.credit_step:
            return False
        ahead.given += 1
        self._at_hand = False
        return True

    def _turn(self, kind: Any) -> Any:
        """Settle the message at hand and return the next one; None, and nothing is done, when that takes more.

        It does when no message is here, or when the server has to hear how far the consumer has come.
        """
        ahead = None if self._closed or self._incoming is None else self._incoming.ahead
        if ahead is None or ahead.is_lost or not ahead.arrived:
            return None
        if self._at_hand:
            if ahead.given + 1 - ahead.told >= ahead.credit_step:
                return None
            ahead.given += 1
        self._number = number = self._number + 1
        self._at_hand = True
        return delivered(kind, ahead.arrived.popleft(), self, number)


_compiled = compiled("transport")
if not TYPE_CHECKING and _compiled is not None:
    delivered = _compiled.delivered
    Turns = _compiled.Turns


def reason_text(reason: object) -> str:
    """Why a message is rejected, as it is kept with the message: cut to 1,024 bytes, since errors' texts may be long.

    Raises:
        InvalidArgument: It is no text.
    """
    if not isinstance(reason, str):
        raise InvalidArgument("reason", f"{type(reason).__name__} is no text", "str")
    return reason.encode(errors="replace")[:TEXT_BYTES_MAX].decode(errors="ignore")
