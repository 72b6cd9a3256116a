# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/connecting.py by tools/blocking: change that one.
"""Connect to a queue manager by its URL."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from entrepot import checks
from entrepot.client.address import parse
from entrepot.client.blocking.blocking_transport import BlockingTransport
from entrepot.client.blocking.connection import Connection
from entrepot.client.blocking.embedded_transport import EmbeddedTransport
from entrepot.client.blocking.primitives import apart
from entrepot.client.embedded import EmbeddedHost, current_user, share_host
from entrepot.client.options import Sender


def connect(
    url: str, *, application: str = "", user: str = "", password: str = "", reconnect_s: float = 30.0
) -> Connection:
    """Connect to a queue manager.

    `embedded:PATH` runs it inside this process, and creates it when there is
    nothing at PATH yet; connections of one process to one PATH share it. It
    stops with the last connection. `memory:` is the same without a disk, for
    tests and short-lived work: a new queue manager, or with `memory:NAME` the
    one that this process has under the name.

    `unix:PATH` reaches the one that runs in that folder (`entrepot qm start`),
    `mq://host:1414/QM?channel=NAME` one anywhere by a client channel, and
    `mqs://` the same encrypted. Such a connection mends itself for up to
    `reconnect_s` when it breaks; a verb whose outcome is unknown then says so.

    Raises:
        InvalidUrl: Not a URL of ours.
        RecoveryError: It cannot be started; the error says why. Nothing was lost.
        ConnectFailed, SecurityError: There is no answer, or permission is denied.
    """
    name = checks.text("application", application) or program()
    if not isinstance(url, str) or url.startswith(("embedded:", "memory:")):
        host, leave = apart(share_host, url)
        return connected_to(host, application=name, leave=leave)
    address = parse(url, user=user, password=password)
    line = BlockingTransport(address, application=name, reconnect_s=checks.seconds("reconnect_s", reconnect_s))
    line.open()
    return Connection(line, Sender(current_user(), name))


def connected_to(host: EmbeddedHost, *, application: str = "", leave: Callable[[], None] | None = None) -> Connection:
    """A connection to a queue manager that runs in this process already, and stops with it unless `leave` is given."""
    name = application or program()
    return Connection(EmbeddedTransport(host, leave or host.close, name), Sender(current_user(), name))


def program() -> str:
    """What this process calls itself."""
    return Path(sys.argv[0] or "python").name
