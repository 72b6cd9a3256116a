# SPDX-License-Identifier: Apache-2.0
"""Where a process listens, by the kernel's word."""

from __future__ import annotations

import os
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

_LISTENING = "0A"


def addresses_listening(pid: int) -> list[IPv4Address | IPv6Address]:
    """The addresses at which a process takes TCP connections."""
    own = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENING and f"socket:[{words[9]}]" in own:
                found.append(_address(words[1].partition(":")[0]))
    return found


def _address(text: str) -> IPv4Address | IPv6Address:
    """The kernel writes words of four bytes, each in the machine's own order."""
    whole = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    address = ip_address(whole)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
