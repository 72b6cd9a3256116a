# SPDX-License-Identifier: Apache-2.0
"""URLs of queue managers: where they are, by which channel, and as whom.

unix:./qm1                                  the queue manager that runs in that folder
mq://db.example:1414/QM1?channel=APP        by a client channel
mqs://ann@db.example/QM1?channel=APP&ca=/etc/port/ca.pem&cert=ann.pem&key=ann.key
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from entrepot.errors import ConnectFailed, ForeignProtocol, InvalidUrl
from entrepot.server.wire.frame import PORT, SOCKET

NO_TLS_THERE = "what answers there does not speak TLS; use mq://, or the port of a listener with TLS(YES)"
_NO_TLS_REASONS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
"""What OpenSSL calls an answer that is no TLS."""
_PASSWORD_VARIABLE = "ENTREPOT_PASSWORD"  # noqa: S105  # its name, not its value
_KNOWN = {"channel", "ca", "cert", "key", "verify"}


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Where a queue manager is; its text never shows the password."""

    folder: Path | None = None
    host: str = ""
    port: int = PORT
    manager: str = ""
    channel: str = ""
    user: str = ""
    password: str = ""
    tls: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    verify: bool = True

    def __str__(self) -> str:
        if self.folder is not None:
            return f"unix:{self.folder}"
        return f"{'mqs' if self.tls else 'mq'}://{self.host}:{self.port}"

    __repr__ = __str__

    def ssl_context(self) -> Any:
        """For an encrypted connection; None for a plain one."""
        if not self.tls:
            return None
        from entrepot.server.security.tls import client_context

        def path(text: str) -> Path | None:
            return Path(text) if text else None

        return client_context(path(self.ca), path(self.certificate), path(self.key), self.verify)


def parse(url: str, *, user: str = "", password: str = "") -> Address:
    """The address that a URL names; `user` and `password` add to what it says.

    Raises:
        InvalidUrl: Not a URL of ours.
    """
    scheme, _, rest = url.partition(":")
    if "\0" in url:
        raise InvalidUrl(_without_password(url))
    if scheme == "unix" and rest:
        return Address(folder=Path(rest), user=user, password=password)
    if scheme not in ("mq", "mqs"):
        raise InvalidUrl(_without_password(url))
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
        query = parse_qs(parts.query, strict_parsing=bool(parts.query), keep_blank_values=True)
    except ValueError as error:
        raise InvalidUrl(_without_password(url)) from error
    if not parts.hostname or not query.keys() <= _KNOWN or any(len(values) > 1 for values in query.values()):
        raise InvalidUrl(_without_password(url))
    options = {name: values[0] for name, values in query.items()}
    name = unquote(parts.username or "") or user
    return Address(
        host=parts.hostname,
        port=port,
        manager=unquote(parts.path.lstrip("/")),
        channel=options.get("channel", ""),
        user=name,
        password=unquote(parts.password or "") or password or (os.environ.get(_PASSWORD_VARIABLE, "") if name else ""),
        tls=scheme == "mqs",
        ca=options.get("ca", ""),
        certificate=options.get("cert", ""),
        key=options.get("key", ""),
        verify=options.get("verify", "yes") != "no",
    )


def _without_password(url: str) -> str:
    """A URL as an error may show it; whatever stands before the last @ may be a password."""
    return re.sub(r"(//).*@", r"\1...@", url, flags=re.DOTALL)


def open_socket(address: Address, timeout_s: float) -> socket.socket:
    """A connected socket.

    Raises:
        ConnectFailed: Nobody answers there.
    """
    try:
        if address.folder is not None:
            return _open_unix(address.folder, timeout_s)
        opened = socket.create_connection((address.host, address.port), timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        context = address.ssl_context()
        return opened if context is None else context.wrap_socket(opened, server_hostname=address.host)
    except OSError as error:
        raise ConnectFailed(str(address), problem_of(error)) from error


def closed_at_once(address: Address) -> str:
    """What to think of a server that ends the connection before it has said anything."""
    if address.folder is not None or address.tls:
        return "the connection was closed before the queue manager answered"
    return (
        "the connection was closed before the queue manager answered: a listener with TLS(YES) wants mqs://, and one "
        "that has all the connections it may have turns others away"
    )


def problem_of(error: Exception) -> str:
    """Why no connection came to be, in words that say what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        if error.reason in _NO_TLS_REASONS or isinstance(error, ssl.SSLEOFError):
            return NO_TLS_THERE
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, ForeignProtocol):
        advice = "; use mqs:// for a listener with TLS" if error.protocol == "TLS" else ""
        return f"what answers there speaks {error.protocol}, it is no queue manager{advice}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _open_unix(folder: Path, timeout_s: float) -> socket.socket:
    # By way of a descriptor, because the path of a Unix socket has at most 107 bytes.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.settimeout(timeout_s)
        opened.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
    except BaseException:
        opened.close()
        raise
    finally:
        os.close(descriptor)
    return opened
