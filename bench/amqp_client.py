# SPDX-License-Identifier: Apache-2.0
"""What our AMQP side costs: processor time of the server for a message, in and out.

    python bench/amqp_client.py [MESSAGES] [BODY_BYTES]

The client is proton's engine without its wrapper objects, on a blocking
socket, because the stock Python client costs more than any broker. Server
and client are processes of their own; the server's processor time is read
from /proc, so other load on the machine disturbs rates more than costs.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
from cproton_ffi import ffi, lib

from entrepot.amqp.mapping import encode_message
from entrepot.amqp.protocol import AmqpProtocol
from entrepot.channels.admission import Admission
from entrepot.channels.desk import Desk, Identity
from entrepot.message import Message
from entrepot.mqsc import run_script
from entrepot.queues.definitions import Channel, Listener
from entrepot.queues.folder import create
from entrepot.queues.host import Host

_CREDIT = 1000


class _OpenDoor(Admission):
    """Everybody is an administrator; passwords are not what is measured."""

    def __init__(self) -> None:
        pass

    async def admit(self, caller: Any, **_: Any) -> Identity:
        return Identity("bench", address=caller.address, channel="BENCH", administrator=True)

    def leave(self, identity: Identity) -> None:
        pass

    def channel(self, name: str) -> Channel:
        return Channel(name=name)


def serve(path: str, port: Any) -> None:
    async def run() -> None:
        host = Host(path)
        run_script("DEFINE QLOCAL(Q) MAXDEPTH(10000000)", host, "bench")
        desk = Desk(host)
        listener = Listener(name="AMQP", protocol="AMQP")
        server = await asyncio.get_running_loop().create_server(
            lambda: AmqpProtocol(desk, _OpenDoor(), listener), "127.0.0.1", 0
        )
        port.put(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    uvloop.run(run())


class RawClient:
    """One connection, one session, one link, nothing else."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport, self._connection = lib.pn_transport(), lib.pn_connection()
        self._collector = lib.pn_collector()
        lib.pn_connection_collect(self._connection, self._collector)
        lib.pn_connection_set_container(self._connection, b"bench")
        lib.pn_transport_set_max_frame(self._transport, 65536)
        lib.pn_transport_bind(self._transport, self._connection)
        lib.pn_connection_open(self._connection)
        self._session = lib.pn_session(self._connection)
        lib.pn_session_set_incoming_capacity(self._session, 2048 * 65536)
        lib.pn_session_open(self._session)
        self._buffer = ffi.new("char[]", 1 << 18)

    def _write(self) -> None:
        while (pending := lib.pn_transport_pending(self._transport)) > 0:
            got = lib.pn_transport_peek(self._transport, self._buffer, min(pending, 1 << 18))
            self._socket.sendall(ffi.buffer(self._buffer, got))
            lib.pn_transport_pop(self._transport, got)

    def _read(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server has gone")
        start, at = ffi.from_buffer(data), 0
        while at < len(data):
            room = lib.pn_transport_capacity(self._transport)
            if room <= 0:
                raise ConnectionError("the engine listens no more")
            at += lib.pn_transport_push(self._transport, start + at, min(room, len(data) - at))

    def send(self, queue: str, count: int, data: bytes, *, settled: bool) -> float:
        link = lib.pn_sender(self._session, b"sender")
        lib.pn_terminus_set_type(lib.pn_link_target(link), lib.PN_TARGET)
        lib.pn_terminus_set_address(lib.pn_link_target(link), queue.encode())
        lib.pn_link_set_snd_settle_mode(link, lib.PN_SND_SETTLED if settled else lib.PN_SND_UNSETTLED)
        lib.pn_link_open(link)
        sent = done = 0
        tag = ffi.new("pn_delivery_tag_t *", {"size": 1, "start": ffi.new("char[]", b"t")})
        size = len(data)
        begun = time.perf_counter()
        while done < count:
            for _ in range(min(lib.pn_link_credit(link), count - sent)):
                delivery = lib.pn_delivery(link, tag[0])
                lib.pn_link_send(link, data, size)
                if settled:
                    lib.pn_delivery_settle(delivery)
                    done += 1
                else:
                    lib.pn_link_advance(link)
                sent += 1
            self._write()
            if done < count or settled:
                if done < count:
                    self._read()
                while event := lib.pn_collector_peek(self._collector):
                    if lib.pn_event_type(event) == lib.PN_DELIVERY:
                        delivery = lib.pn_event_delivery(event)
                        assert lib.pn_delivery_remote_state(delivery) == 0x24
                        lib.pn_delivery_settle(delivery)
                        done += 1
                    lib.pn_collector_pop(self._collector)
        elapsed = time.perf_counter() - begun
        lib.pn_link_close(link)
        self._write()
        return elapsed

    def receive(self, queue: str, count: int, *, settled: bool) -> float:
        link = lib.pn_receiver(self._session, b"receiver")
        lib.pn_terminus_set_type(lib.pn_link_source(link), lib.PN_SOURCE)
        lib.pn_terminus_set_address(lib.pn_link_source(link), queue.encode())
        lib.pn_link_set_snd_settle_mode(link, lib.PN_SND_SETTLED if settled else lib.PN_SND_UNSETTLED)
        lib.pn_link_open(link)
        lib.pn_link_flow(link, _CREDIT)
        got = used = 0
        begun = time.perf_counter()
        while got < count:
            self._write()
            self._read()
            while event := lib.pn_collector_peek(self._collector):
                if lib.pn_event_type(event) == lib.PN_DELIVERY:
                    delivery = lib.pn_event_delivery(event)
                    if lib.pn_delivery_readable(delivery) and not lib.pn_delivery_partial(delivery):
                        lib.pn_link_recv(link, self._buffer, 1 << 18)
                        lib.pn_link_advance(link)
                        if not settled:
                            lib.pn_delivery_update(delivery, 0x24)
                        lib.pn_delivery_settle(delivery)
                        got += 1
                        used += 1
                        if used == _CREDIT // 2:
                            lib.pn_link_flow(link, used)
                            used = 0
                lib.pn_collector_pop(self._collector)
        elapsed = time.perf_counter() - begun
        self._write()
        lib.pn_link_close(link)
        self._write()
        return elapsed

    def close(self) -> None:
        lib.pn_connection_close(self._connection)
        self._write()
        self._socket.close()


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    body = b"x" * (int(sys.argv[2]) if len(sys.argv) > 2 else 1024)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/BENCH"
        create(Path(path))
        port = context.Queue()
        server = context.Process(target=serve, args=(path, port), daemon=True)
        server.start()
        number = port.get(timeout=30)
        print(f"{count} messages of {len(body)} bytes, load {os.getloadavg()[0]:.1f}")
        print(f"{'':34}{'msg/s':>10}{'server µs/msg':>16}")
        for persistent in (False, True):
            data = encode_message(Message(body, persistent=persistent, priority=4), "Q")
            for settled in (True, False):
                for what in ("send", "receive"):
                    client = RawClient(number)
                    before = processor_s(server.pid)
                    if what == "send":
                        elapsed = client.send("Q", count, data, settled=settled)
                    else:
                        elapsed = client.receive("Q", count, settled=settled)
                    client.close()
                    time.sleep(0.3)
                    cost = (processor_s(server.pid) - before) / count * 1e6
                    kind = "persistent" if persistent else "nonpersistent"
                    name = f"{what} {kind} {'settled' if settled else 'unsettled'}"
                    print(f"{name:34}{count / elapsed:>10,.0f}{cost:>16.1f}")
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
