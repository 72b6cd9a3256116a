# SPDX-License-Identifier: Apache-2.0
"""Whoever connects to a port where no queue manager listens, or not with this protocol, is told what is there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

import entrepot
from entrepot import aio
from entrepot.errors import ConnectFailed
from entrepot.testing.servers import ServerThread

HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
WORDS = [
    ("mq", HTTP, "speaks HTTP"),
    ("mq", b"SSH-2.0-OpenSSH_9.6\r\n", "speaks SSH"),
    ("mq", b"-ERR unknown command\r\n", "speaks Redis"),
    ("mq", b"AMQP\x03\x01\x00\x00", "speaks AMQP"),
    ("mq", ALERT, "mqs:// for a listener with TLS"),
    ("mq", b"", "a listener with TLS(YES) wants mqs://"),
    ("mqs", HTTP, "does not speak TLS; use mq://"),
    ("mqs", b"", "does not speak TLS; use mq://"),
]


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port where everybody who says something gets this answer."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listening.accept()
                with accepted, contextlib.suppress(OSError):
                    accepted.recv(4096)
                    accepted.sendall(answer)
                    accepted.shutdown(socket.SHUT_WR)
                    accepted.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def problem_of(url: str) -> str:
    with pytest.raises(ConnectFailed) as failed:
        entrepot.connect(url, reconnect_s=0)
    return str(failed.value)


async def aio_problem_of(url: str) -> str:
    with pytest.raises(ConnectFailed) as failed:
        await aio.connect(url, reconnect_s=0)
    return str(failed.value)


def test_the_true_reason_is_told() -> None:
    for scheme, answer, words in WORDS:
        with answering(answer) as port:
            url = f"{scheme}://127.0.0.1:{port}/?channel=APP" + ("&verify=no" if scheme == "mqs" else "")
            assert words in problem_of(url), (scheme, answer)
            assert words in asyncio.run(aio_problem_of(url)), (scheme, answer)


def test_a_server_says_what_does_not_belong_to_its_port(server: ServerThread, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "entrepot")
    for said, words in ((b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")):
        with socket.create_connection(("127.0.0.1", server.port("TCP"))) as strange:
            strange.sendall(said)
            strange.settimeout(30)
            assert strange.recv(1000)
        assert f"speaks {words}" in caplog.text
    url = f"mqs://127.0.0.1:{server.port('TCP')}/?channel=APP&verify=no"
    assert "does not speak TLS; use mq://" in problem_of(url)
