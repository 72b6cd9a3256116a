# SPDX-License-Identifier: Apache-2.0
"""Other protocols, told by their first bytes: who connects to the wrong port is told what is there instead."""

from __future__ import annotations

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"HTTP/", "HTTP"),
    (b"GET ", "HTTP"),
    (b"POST ", "HTTP"),
    (b"PUT ", "HTTP"),
    (b"HEAD ", "HTTP"),
    (b"OPTIONS ", "HTTP"),
    (b"PRI * ", "HTTP/2"),
    (b"SSH-", "SSH"),
    (b"AMQP", "AMQP"),
    (b"-ERR", "Redis"),
    (b"-NOAUTH", "Redis"),
    (b"-DENIED", "Redis"),
    (b"*1\r\n", "Redis"),
    (b"220 ", "SMTP or FTP"),
    (b"220-", "SMTP or FTP"),
    (b"+OK", "POP3"),
    (b"* OK", "IMAP"),
    (b"RFB ", "VNC"),
    (b"TSH ", "IBM MQ"),
)
_TLS_RECORDS = (0x14, 0x15, 0x16, 0x17)


def foreign_protocol(beginning: bytes) -> str:
    """The protocol whose first bytes these are; empty when they may be ours, or nobody knows."""
    for known, name in _BEGINNINGS:
        if beginning.startswith(known):
            return name
    # A first frame of ours has less than 64 KiB, so its third byte is 0; in a TLS record that is the version.
    if len(beginning) > 2 and beginning[0] in _TLS_RECORDS and beginning[1] == 3 and 1 <= beginning[2] <= 4:
        return "TLS"
    return ""
