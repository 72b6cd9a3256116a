# SPDX-License-Identifier: Apache-2.0
"""The forms of values that say where and who somebody is: addresses, ways to a queue manager, certificates.

A rule with a mistyped address would never match and keep silent about it, so
these are checked when they are said, by those who use them later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from entrepot.errors import InvalidSetting
from entrepot.server.mqsc.forms import Form, InvalidValue, RowValue
from entrepot.server.security import addresses, distinguished_name

_CHARACTERS_MAX = 264
"""MQ's longest CONNAME."""

_HOST = re.compile(r"[A-Za-z0-9._:%-]+", re.ASCII)
_REMOTE = re.compile(r"(?P<host>[A-Za-z0-9._:%-]+)(\((?P<port>[0-9]{1,5})\))?", re.ASCII)
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class ListenerAddress(Form):
    """Where a listener listens."""

    @property
    def expected(self) -> str:
        return "an address or host name, such as 127.0.0.1; 0.0.0.0 or :: is every one"

    def parse(self, text: str) -> str:
        if len(text) > _CHARACTERS_MAX or not _HOST.fullmatch(text):
            raise InvalidValue
        return text


@dataclass(frozen=True, slots=True)
class ConnectionName(Form):
    """Where another queue manager is, or several places in the order of preference."""

    @property
    def expected(self) -> str:
        return "'host(port)' in quotes, several with commas between them, or 'unix:PATH'"

    def parse(self, text: str) -> str:
        if not text.strip(" "):
            return ""
        if len(text) > _CHARACTERS_MAX or not all(_leads_somewhere(place.strip(" ")) for place in text.split(",")):
            raise InvalidValue
        return text


def _leads_somewhere(place: str) -> bool:
    if place.startswith("unix:"):
        return place.isprintable() and len(place) > len("unix:")
    match = _REMOTE.fullmatch(place)
    return match is not None and 0 < int(match["port"] or 1) <= PORT_MAX


@dataclass(frozen=True, slots=True)
class AddressPattern(Form):
    """Addresses that a rule is about."""

    @property
    def expected(self) -> str:
        return "addresses such as 10.1.2.3, 192.168.*, 10.0.0.1-20, 10.0.0.0/8, unix or *"

    def parse(self, text: str) -> str:
        if not text.strip(" "):
            return ""
        try:
            # `unix` is a word, which a script folds to capital letters unless it stands in quotes.
            return addresses.require_pattern("unix" if text.upper() == "UNIX" else text)
        except InvalidSetting:
            raise InvalidValue from None


@dataclass(frozen=True, slots=True)
class AddressPatterns(Form):
    """A list of them."""

    many = True
    patterns_max: int

    @property
    def expected(self) -> str:
        return f"1 to {self.patterns_max} {AddressPattern().expected}"

    def parse(self, text: str) -> str:
        return AddressPattern().parse(text)

    def show(self, value: Any) -> RowValue:
        return list(value)

    def fits(self, value: Any) -> bool:
        return len(value) <= self.patterns_max


@dataclass(frozen=True, slots=True)
class PeerPattern(Form):
    """What a partner's certificate has to say."""

    characters_max: int

    @property
    def expected(self) -> str:
        return f"parts of a certificate's name such as 'CN=app*,O=Port', at most {self.characters_max} characters"

    def parse(self, text: str) -> str:
        if not text.strip(" "):
            return ""
        try:
            parts = distinguished_name.parse_pattern(text)
        except InvalidSetting:
            raise InvalidValue from None
        if not parts or len(text) > self.characters_max or not text.isprintable():
            raise InvalidValue
        return text
