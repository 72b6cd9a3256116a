# SPDX-License-Identifier: Apache-2.0
"""Many at once, or few that never end: they are bounded, and others do not notice."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.client.blocking import connect
from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.errors import AuthenticationFailed, HandshakeTimedOut, TooManyConnections
from entrepot.limits import MIB
from entrepot.server import framed_connection
from entrepot.server.security.audit_chain import FILE
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import Verb
from entrepot.testing.certificates import make_certificates
from entrepot.testing.servers import ServerThread
from unit.server.guests import put

from .strangers import Stranger, business_goes_on, descriptors, resident_bytes, until

SCRIPT = """
DEFINE LISTENER(TCP) PORT(0) HSTIMEOUT(60)
DEFINE LISTENER(HASTY) PORT(0) HSTIMEOUT(1)
DEFINE LISTENER(SMALL) PORT(0) MAXCONN(50) HSTIMEOUT(60)
DEFINE LISTENER(FAIR) PORT(0) MAXCONNA(20) HSTIMEOUT(60)
DEFINE LISTENER(TLS) PORT(0) TLS(YES) HSTIMEOUT(1)
DEFINE LISTENER(TLSPATIENT) PORT(0) TLS(YES) HSTIMEOUT(3600) MAXCONNA(30)
ALTER QMGR SSLKEYR('tls/server')
DEFINE CHANNEL(FEW) CHLTYPE(SVRCONN) MAXINST(3)
DEFINE CHANNEL(FEWEACH) CHLTYPE(SVRCONN) MAXINSTC(2)
DEFINE QLOCAL(BIG) MAXMSGL(104857600)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT, GET, BROWSE)
"""


@pytest.fixture(scope="module")
def server(founded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    path = tmp_path_factory.mktemp("floods") / "QM1"
    shutil.copytree(founded, path)
    make_certificates(path / "tls", ["server"])
    with connected_to(EmbeddedHost(path)) as connection:
        connection.mqsc(SCRIPT)
    with pytest.MonkeyPatch.context() as patched, ServerThread(path) as server:
        patched.setattr(framed_connection, "_FAREWELL_S", 0.3)
        yield server


def connections(server: ServerThread, listener: str) -> int:
    assert server.server is not None
    return server.server.listeners[listener].gate.connections


def all_closed(strangers: list[Stranger]) -> bool:
    strangers[:] = [each for each in strangers if not each.is_closed()]
    return not strangers


# --- the handshake -------------------------------------------------------------------------------


def test_hundreds_who_say_nothing_are_closed_in_time(server: ServerThread) -> None:
    with business_goes_on(server), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Stranger(server, "HASTY")) for _ in range(299)]
        begun = time.monotonic()
        silent.append(stack.enter_context(Stranger(server, "HASTY")))
        assert isinstance(_farewell(silent[0]), HandshakeTimedOut)
        until(lambda: all_closed(silent))
        assert time.monotonic() - begun > 0.8
        until(lambda: connections(server, "HASTY") == 0)


def _farewell(stranger: Stranger) -> Any:
    try:
        return stranger.answer()
    except HandshakeTimedOut as error:
        return error


def test_a_byte_now_and_then_gains_no_time(server: ServerThread) -> None:
    with business_goes_on(server), contextlib.ExitStack() as stack:
        slow = [stack.enter_context(Stranger(server, "HASTY")) for _ in range(10)]
        # So long that its end does not come: a busy server may take its time, but nobody's bytes may give him more.
        hello = encode(Verb.HELLO, 1, verbs.Hello("ENTREPOT", 1, "APP", "ann", "x" * 1000))
        for byte in hello[:600]:
            for each in slow:
                with contextlib.suppress(OSError):
                    each.socket.sendall(bytes([byte]))
            if all_closed(slow):
                break
            time.sleep(0.1)
        assert not slow


def test_handshakes_that_never_begin_are_closed_and_counted_behind_tls_too(server: ServerThread) -> None:
    with business_goes_on(server), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Stranger(server, "TLS")) for _ in range(10)]
        until(lambda: all_closed(silent))
        assert server.server is not None
        handshakes = server.server.listeners["TLSPATIENT"].server._gate
        trying = [stack.enter_context(Stranger(server, "TLSPATIENT")) for _ in range(50)]
        until(lambda: sum(each.is_closed() for each in trying) == 20)
        assert (handshakes.turned_away, handshakes.connections) == (20, 30)
        for each in trying:
            each.socket.close()
        until(lambda: handshakes.connections == 0)


def test_what_is_no_handshake_of_tls_is_closed_without_waiting_for_more(server: ServerThread) -> None:
    with Stranger(server, "TLSPATIENT") as plain:
        plain.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(plain.is_closed)


def test_connections_that_vanish_before_anybody_looks_are_not_counted_for_ever(server: ServerThread) -> None:
    with business_goes_on(server):
        for _ in range(300):
            Stranger(server).break_off()
        until(lambda: connections(server, "TCP") == 0)
        assert server.server is not None
        assert server.server._gate.connections == 0


def test_a_flood_of_wrong_passwords_is_slow_and_others_are_not(server: ServerThread) -> None:
    with business_goes_on(server), contextlib.ExitStack() as stack:
        guessing = [stack.enter_context(Stranger(server)) for _ in range(12)]
        begun = time.monotonic()
        for number, each in enumerate(guessing):
            each.hello(user=f"user{number % 4}", password=str(number))
        for each in guessing:
            with pytest.raises(AuthenticationFailed):
                each.answer()
        assert time.monotonic() - begun >= 1.0


# --- how many ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("listener", "limit"), [("SMALL", 50), ("FAIR", 20)])
def test_a_listener_lets_in_no_more_than_it_says(server: ServerThread, listener: str, limit: int) -> None:
    with business_goes_on(server), contextlib.ExitStack() as stack:
        flood = [stack.enter_context(Stranger(server, listener)) for _ in range(200)]
        until(lambda: sum(each.is_closed() for each in flood) == 200 - limit)
        assert connections(server, listener) == limit
        for each in flood:
            each.socket.close()
        until(lambda: connections(server, listener) == 0)
        stack.enter_context(Stranger(server, listener)).admitted()


@pytest.mark.parametrize(("channel", "limit"), [("FEW", 3), ("FEWEACH", 2)])
def test_a_channel_has_no_more_instances_than_it_says(server: ServerThread, channel: str, limit: int) -> None:
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(Stranger(server)) for _ in range(limit + 1)]
        for each in strangers[:limit]:
            each.admitted(channel=channel)
        with pytest.raises(TooManyConnections):
            strangers[limit].admitted(channel=channel)
        strangers[0].socket.close()
        until(lambda: server.server.admission.instances(channel) < limit)  # type: ignore[union-attr]
        stack.enter_context(Stranger(server)).admitted(channel=channel)


def test_connections_come_and_go_and_leave_no_descriptor(server: ServerThread) -> None:
    with Stranger(server) as first:
        first.admitted()
    before = until(descriptors)
    for _ in range(100):
        with Stranger(server) as each:
            each.admitted()
    until(lambda: descriptors() <= before + 2)


FEW_DESCRIPTORS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
from entrepot.testing.servers import ServerThread
with ServerThread(sys.argv[1]) as server:
    print(server.port("TCP"), server.port("TLS"), flush=True)
    sys.stdin.read()
"""


def test_a_flood_does_not_take_the_descriptors_that_the_log_needs(founded: Path, tmp_path: Path) -> None:
    path = tmp_path / "QM1"
    shutil.copytree(founded, path)
    make_certificates(path / "tls", ["server"])
    with connected_to(EmbeddedHost(path)) as connection:
        connection.mqsc(SCRIPT.replace("HSTIMEOUT(1)", "").replace("MAXCONNA(30)", ""))
    process = subprocess.Popen(
        [sys.executable, "-c", FEW_DESCRIPTORS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process, contextlib.ExitStack() as stack:
        assert process.stdout is not None
        ports = [int(port) for port in process.stdout.readline().split()]
        good = stack.enter_context(connect(f"unix:{path}"))
        for port in ports * 150:
            flood = stack.enter_context(contextlib.closing(socket.socket()))
            with contextlib.suppress(OSError):
                flood.settimeout(1.0)
                flood.connect(("127.0.0.1", port))
        # Enough for several segments of the log, which are files.
        for _ in range(300):
            good.put("Q", bytes(4000), persistent=True)
            assert good.get("Q") is not None
        stack.enter_context(connect(f"unix:{path}")).put("Q", b"", persistent=True)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


# --- who does not read ---------------------------------------------------------------------------


@pytest.fixture
def big(server: ServerThread) -> Iterator[int]:
    """A queue with forty long messages."""
    with connect(server.unix_url) as connection:
        for _ in range(40):
            connection.put("BIG", bytes(1 * MIB))
        yield 40
        connection.mqsc("CLEAR QLOCAL(BIG)")


@pytest.mark.parametrize("verb", [Verb.BROWSE, Verb.CONSUME, Verb.GET], ids=lambda verb: verb.name)
def test_who_never_reads_costs_little_memory_and_can_be_cut_off(server: ServerThread, big: int, verb: Verb) -> None:
    frames = {
        Verb.BROWSE: [verbs.BrowsePayload("BIG", None, 1000)] * 500,
        Verb.CONSUME: [verbs.Consume("BIG", 1, 100_000)],
        Verb.GET: [verbs.Get("BIG")] * 500,
    }[verb]
    with business_goes_on(server), Stranger(server) as deaf:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.admitted()
        before = resident_bytes()
        said = b"".join(encode(verb, number, frame) for number, frame in enumerate(frames, 10))
        deaf.socket.setblocking(False)
        sent = deaf.socket.send(said)
        time.sleep(0.5)
        assert resident_bytes() - before < 32 * MIB
        with connect(server.unix_url) as admin:
            (left,) = admin.mqsc("DISPLAY QSTATUS(BIG) CURDEPTH")[0].rows
            assert int(str(left["CURDEPTH"])) >= big - 10  # it is not served further
            rows = admin.mqsc("DISPLAY CONN(*) WHERE(CHANNEL EQ APP)")[0].rows
            admin.mqsc(f"STOP CONN({rows[0]['CONN']})")
        # It does not read its farewell either.
        until(lambda: connections(server, "TCP") == 0)
        assert sent <= len(said)


def test_who_asks_for_ever_and_never_reads_is_not_read_from(server: ServerThread) -> None:
    with business_goes_on(server), Stranger(server) as deaf:
        deaf.admitted()
        deaf.socket.settimeout(0.5)
        beats = encode(Verb.HEARTBEAT, 9, verbs.Empty()) * 10_000
        before, sent = resident_bytes(), 0
        with contextlib.suppress(TimeoutError):
            while sent < 200 * MIB:
                sent += deaf.socket.send(beats)
        assert sent < 64 * MIB
        assert resident_bytes() - before < 32 * MIB


def test_who_announces_much_and_sends_little_costs_nothing(server: ServerThread) -> None:
    with business_goes_on(server), contextlib.ExitStack() as stack:
        before = resident_bytes()
        for _ in range(20):
            each = stack.enter_context(Stranger(server)).admitted()
            frame = encode(Verb.PUT, 9, put("Q", bytes(1000)))
            each.socket.sendall((100 * MIB).to_bytes(4, "little") + frame[4:])
        time.sleep(0.2)
        assert resident_bytes() - before < 32 * MIB


# --- who makes work ------------------------------------------------------------------------------


def test_one_who_looks_through_a_queue_again_and_again_does_not_stop_others(server: ServerThread) -> None:
    with connect(server.unix_url) as connection:
        connection.mqsc("DEFINE QLOCAL(DEEP) MAXDEPTH(999999) REPLACE")
        for _ in range(2000):
            connection.put("DEEP", b"x", properties={"colour": "red"})
        wanted = verbs.Wanted(selector="colour = 'none' OR colour LIKE '%a%b%c%'")
        with business_goes_on(server), Stranger(server) as busy:
            busy.admitted()
            looks = [encode(Verb.GET, number, verbs.Get("DEEP", 0, 0.0, wanted)) for number in range(10, 210)]
            looks += [
                encode(Verb.BROWSE, number, verbs.BrowsePayload("DEEP", None, 9, wanted)) for number in range(210, 410)
            ]
            busy.socket.sendall(b"".join(looks))
            time.sleep(1.5)
        connection.mqsc("DELETE QLOCAL(DEEP) PURGE")


def test_selectors_that_take_long_to_read_do_not_stop_others(server: ServerThread) -> None:
    with business_goes_on(server, slowest_s=1.0), Stranger(server) as busy:
        busy.admitted()
        for number in range(10, 40):
            text = " OR ".join(f"a{number}x{each} = {each}" for each in range(500))
            busy.say(Verb.GET, number, verbs.Get("Q", 0, 0.0, verbs.Wanted(selector=text)))
        time.sleep(1.5)


def test_puts_that_wait_for_room_for_ever_do_not_stop_others(server: ServerThread) -> None:
    with connect(server.unix_url) as connection:
        connection.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(1) REPLACE")
        connection.put("FULL", b"x")
        with business_goes_on(server), contextlib.ExitStack() as stack:
            for _ in range(5):
                each = stack.enter_context(Stranger(server)).admitted()
                waits = [encode(Verb.PUT, number, put("FULL", bytes(1000), wait_s=1e6)) for number in range(10, 200)]
                each.socket.sendall(b"".join(waits))
            time.sleep(0.5)
        # All have gone, though nobody was listening to them.
        until(lambda: connections(server, "TCP") == 0)
        connection.mqsc("DELETE QLOCAL(FULL) PURGE")


def test_refused_verbs_by_the_thousand_fill_no_log(server: ServerThread) -> None:
    audit = server.path / FILE
    before = audit.stat().st_size
    with business_goes_on(server), Stranger(server) as curious:
        curious.admitted(channel="APP")
        tries = [encode(Verb.BROWSE, 9, verbs.BrowsePayload("Q", None, 0))] * 10
        tries += [encode(Verb.DYNAMIC, number, verbs.Dynamic(f"NOSUCH{number}", "X")) for number in range(3000)]
        reading = threading.Thread(target=_drain, args=(curious,), daemon=True)
        reading.start()
        curious.socket.sendall(b"".join(tries))
        curious.say(Verb.GOODBYE, 5, verbs.Empty())
        reading.join(60)
        assert not reading.is_alive()
    assert audit.stat().st_size - before < 200_000


def _drain(stranger: Stranger) -> None:
    while stranger.hear():
        pass
