# SPDX-License-Identifier: Apache-2.0
"""ActiveMQ Classic with stomp.py: a reply queue for each driver.

STOMP can select by correlation id only with a subscription per request, so
each driver subscribes to a queue of its own. Persistent means
`persistent:true`, a receipt before a send returns, and client-individual
acknowledgement after the reply's receipt.
"""

from __future__ import annotations

import itertools
import queue
import socket
import subprocess
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import stomp

from peers.system import ONE_WAY, REPLY_S, REQUESTS, Producer, System, Trips, drive_blocking
from processes import LOOPBACK, Server, accepts, free_port

_HOME = "/usr/share/activemq"
PREFETCH = 10
PREFETCH_ONE_WAY = 1000

_BROKER = """<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" dataDirectory="{folder}/data"
      useJmx="false" advisorySupport="false">
    <persistenceAdapter><kahaDB directory="{folder}/data/kahadb"/></persistenceAdapter>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://{host}:{port}?transport.tcpNoDelay=true"/>
    </transportConnectors>
  </broker>
</beans>
"""


class ActiveMq(System):
    name = "activemq"
    title = "ActiveMQ, stomp.py"
    commands = ("java", "/usr/bin/activemq")
    nonpersistent_contract = "memory; no receipts, delivered means acknowledged"
    persistent_contract = (
        "fsync of the journal before each receipt (seen in that order), shared by those that wait; may be delivered"
        " before it, acknowledgements not forced; no unit of work: after a crash a request may be served twice"
    )
    # The JVM compiles what is hot: after 4 s of load a round trip cost it 870 µs of CPU, after 20 s 290 µs.
    warm_up_s = 12.0

    def start(self) -> None:
        self._port = free_port()
        (self.folder / "tmp").mkdir()
        broker = self.folder / "activemq.xml"
        broker.write_text(_BROKER.format(folder=self.folder, host=LOOPBACK, port=self._port))
        (self.folder / "log4j.properties").write_text("log4j.rootLogger=WARN\n")
        places = {
            "activemq.home": _HOME,
            "activemq.base": self.folder,
            "activemq.conf": self.folder,
            "activemq.data": self.folder / "data",
            "activemq.classpath": self.folder,
            "java.io.tmpdir": self.folder / "tmp",
            "java.awt.headless": "true",
            "log4j.configuration": f"file:{self.folder}/log4j.properties",
        }
        command = ["java", "-Xms512m", "-Xmx512m", *(f"-D{key}={value}" for key, value in places.items())]
        command += ["-jar", f"{_HOME}/bin/activemq.jar", "start", f"xbean:file:{broker}"]
        self._server = Server(command, self.folder / "output.log")
        self._server.wait_until(lambda: accepts(self._port))

    def stop(self) -> None:
        if hasattr(self, "_server"):
            self._server.stop()

    @property
    def pids(self) -> list[int]:
        return [self._server.pid]

    def version(self) -> str:
        command = ["dpkg-query", "--show", "--showformat", "${Version}", "activemq"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"ActiveMQ {found.stdout or 'of unknown version'}; stomp.py {metadata.version('stomp.py')}"

    def settings(self) -> dict[str, Any]:
        return {
            "heap": "512 MB, as Debian sets it",
            "advisorySupport": False,
            "TCP_NODELAY": "set on both sides; stomp.py does not by itself, and would wait 40 ms at times",
            "prefetch of a worker": PREFETCH,
            "reply queue": "one per driver",
        }

    def client(self, listener: Any) -> _Client:
        return _Client(self._port, listener)

    def drive(self, number: int, trips: Trips) -> int:
        driver = _Driver(self, f"/queue/REPLIES.{number}")
        drive_blocking(driver.round_trip, trips)
        return driver.unexpected

    def work(self, ready: Callable[[], None]) -> None:
        if self.persistent:
            self._work_persistent(ready)
        else:
            self._work_nonpersistent(ready)

    def _work_persistent(self, ready: Callable[[], None]) -> None:
        mailbox = _Mailbox()
        client = self.client(mailbox)
        client.subscribe(f"/queue/{REQUESTS}", ack="client-individual", prefetch=PREFETCH)
        ready()
        while True:
            request = mailbox.messages.get()
            headers = {"persistent": "true", "correlation-id": request.headers["correlation-id"]}
            client.send_for_receipt(request.headers["reply-to"], request.body, headers, mailbox)
            client.ack(request)

    def _work_nonpersistent(self, ready: Callable[[], None]) -> None:
        # The listener replies on the thread that reads the socket, which spares a switch of threads.
        def reply(request: Any) -> None:
            headers = {"correlation-id": request.headers["correlation-id"]}
            client.send(request.headers["reply-to"], request.body, headers)

        client = self.client(_Listener(reply))
        client.subscribe(f"/queue/{REQUESTS}", ack="auto", prefetch=PREFETCH)
        ready()
        _rest()

    def producer(self) -> Producer:
        return _Producer(self)

    def consume(self, see: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        client = self.client(_Listener(lambda message: see(message.body)))
        client.subscribe(f"/queue/{ONE_WAY}", ack="auto", prefetch=PREFETCH_ONE_WAY)
        ready()
        _rest()


def _rest() -> None:
    """The thread that reads the socket does everything."""
    queue.SimpleQueue[None]().get()


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self, take: Callable[[Any], None]) -> None:
        self.on_message = take


class _Mailbox(stomp.ConnectionListener):  # type: ignore[misc]
    """Brings what the reading thread gets to the thread that waits for it."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.receipts: queue.SimpleQueue[str] = queue.SimpleQueue()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])


class _Client:
    def __init__(self, port: int, listener: Any) -> None:
        self._connection = stomp.Connection12([(LOOPBACK, port)], auto_decode=False, try_loopback_connect=False)
        self._connection.set_listener("", listener)
        self._connection.connect(wait=True)
        self._connection.transport.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._receipts = itertools.count()

    def subscribe(self, destination: str, *, ack: str, prefetch: int) -> None:
        headers = {"activemq.prefetchSize": str(prefetch)}
        self._connection.subscribe(destination, id="0", ack=ack, headers=headers)

    def send(self, destination: str, body: bytes, headers: dict[str, str]) -> None:
        self._connection.send(destination, body, headers=headers)

    def send_for_receipt(self, destination: str, body: bytes, headers: dict[str, str], mailbox: _Mailbox) -> None:
        receipt = str(next(self._receipts))
        self._connection.send(destination, body, headers={**headers, "receipt": receipt})
        while mailbox.receipts.get(timeout=REPLY_S) != receipt:
            pass

    def ack(self, message: Any) -> None:
        self._connection.ack(message.headers["ack"])


class _Driver:
    def __init__(self, system: ActiveMq, reply_queue: str) -> None:
        self._persistent = system.persistent
        self._mailbox = _Mailbox()
        self._client = system.client(self._mailbox)
        self._reply_queue = reply_queue
        self._numbers = itertools.count()
        self.unexpected = 0
        self._client.subscribe(reply_queue, ack="client-individual" if self._persistent else "auto", prefetch=PREFETCH)

    def round_trip(self, body: bytes) -> bytes | None:
        correlation = str(next(self._numbers))
        headers = {"correlation-id": correlation, "reply-to": self._reply_queue}
        destination = f"/queue/{REQUESTS}"
        try:
            if self._persistent:
                headers["persistent"] = "true"
                self._client.send_for_receipt(destination, body, headers, self._mailbox)
            else:
                self._client.send(destination, body, headers)
            return self._reply(correlation)
        except queue.Empty:
            return None

    def _reply(self, correlation: str) -> bytes:
        while True:
            message = self._mailbox.messages.get(timeout=REPLY_S)
            if self._persistent:
                self._client.ack(message)
            if message.headers["correlation-id"] == correlation:
                return bytes(message.body)
            self.unexpected += 1


class _Producer:
    def __init__(self, system: ActiveMq) -> None:
        self._mailbox = _Mailbox()
        self._client = system.client(self._mailbox)

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._client.send(f"/queue/{ONE_WAY}", body, {})

    def flush(self) -> None:
        # A receipt for a later frame means that all before it were taken.
        self._client.send_for_receipt("/queue/FLUSHED", b"", {}, self._mailbox)
