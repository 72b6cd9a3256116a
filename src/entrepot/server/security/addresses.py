# SPDX-License-Identifier: Apache-2.0
"""IP addresses and the patterns of channel rules that fit them.

    *               every address, and connections that have none (unix sockets)
    192.168.*       an asterisk stands for one part, or for as many as are missing
    10.0.0.1-20     a range in any part
    10.0.0.0/8      a CIDR block, also of IPv6
    2001:db8:*:1    IPv6 in parts, with all of them or one asterisk for the missing
    192.0.2.7       one address
    unix            connections that have no address

An IPv4 address that comes through an IPv6 socket (::ffff:10.0.0.1) is
that IPv4 address, else every IPv4 rule could be walked around.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from functools import lru_cache

from entrepot.errors import InvalidSetting

_EXPECTED = "an address, 192.168.*, 10.0.0.1-20, a CIDR block such as 10.0.0.0/8, unix, or *"
_ADDRESSES = 2**128
"""How many addresses `*` fits."""
_UNIX = "unix"

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class _Parts:
    """A low and a high number for each part of an address."""

    version: int
    ranges: tuple[tuple[int, int], ...]

    def fits(self, address: _Address) -> bool:
        return address.version == self.version and all(
            low <= part <= high for part, (low, high) in zip(_parts_of(address), self.ranges, strict=True)
        )

    def size(self) -> int:
        return math.prod(high - low + 1 for low, high in self.ranges)


@dataclass(frozen=True, slots=True)
class _Block:
    network: ipaddress.IPv4Network | ipaddress.IPv6Network

    def fits(self, address: _Address) -> bool:
        return address in self.network

    def size(self) -> int:
        return self.network.num_addresses


def fits(pattern: str, address: str) -> bool:
    """Whether a rule's pattern fits where a connection comes from.

    Raises:
        InvalidSetting: It is no pattern.
    """
    if pattern == "*":
        return True
    known = parse_address(address)
    if pattern == _UNIX or known is None:
        require_pattern(pattern)
        return pattern == _UNIX and known is None and address.startswith(_UNIX)
    return _parse(pattern).fits(known)


def width(pattern: str) -> int:
    """How many addresses a pattern fits: of two that fit, the narrower one is the more specific.

    Raises:
        InvalidSetting: It is no pattern.
    """
    if pattern == "*":
        return _ADDRESSES
    return 1 if pattern == _UNIX else _parse(pattern).size()


def require_pattern(pattern: str) -> str:
    """The pattern itself when it is one.

    Raises:
        InvalidSetting: It is none, and a rule with it would never do what its author thinks.
    """
    width(pattern)
    return pattern


@lru_cache(maxsize=4096)
def parse_address(text: str) -> _Address | None:
    """An address as the operating system gives it, or None for what is none, such as a unix socket."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=1024)
def _parse(pattern: str) -> _Parts | _Block:
    if "/" in pattern:
        return _Block(_block(pattern))
    address = parse_address(pattern) if "%" not in pattern else None
    if address is not None:
        return _Parts(address.version, tuple((part, part) for part in _parts_of(address)))
    version, separator, count = (6, ":", 8) if ":" in pattern else (4, ".", 4)
    parts = pattern.split(separator)
    if parts.count("*") == 1:
        # One asterisk stands for all the parts that are missing, and for one at least.
        star = parts.index("*")
        parts[star : star + 1] = ["*"] * max(count - len(parts) + 1, 1)
    if len(parts) != count:
        raise InvalidSetting("address", pattern, _EXPECTED)
    return _Parts(version, tuple(_range(pattern, part, version) for part in parts))


def _block(pattern: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        network = ipaddress.ip_network(pattern)
    except ValueError as error:
        raise InvalidSetting("address", pattern, f"{_EXPECTED} ({error})") from None
    if isinstance(network, ipaddress.IPv6Network):
        # A block that begins with such an address has 96 bits or more: with fewer, its last f would be a host bit.
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, network.prefixlen - 96))
    return network


def _range(pattern: str, part: str, version: int) -> tuple[int, int]:
    base, limit = (10, 255) if version == 4 else (16, 0xFFFF)
    if part == "*":
        return 0, limit
    digits = r"\d{1,3}" if version == 4 else r"[0-9A-Fa-f]{1,4}"
    found = re.fullmatch(rf"({digits})(?:-({digits}))?", part, re.ASCII)
    if found is None:
        raise InvalidSetting("address", pattern, _EXPECTED)
    low = int(found[1], base)
    high = int(found[2], base) if found[2] else low
    if not low <= high <= limit:
        raise InvalidSetting("address", pattern, _EXPECTED)
    return low, high


def _parts_of(address: _Address) -> tuple[int, ...]:
    packed = address.packed
    if address.version == 4:
        return tuple(packed)
    return tuple(int.from_bytes(packed[at : at + 2], "big") for at in range(0, 16, 2))
