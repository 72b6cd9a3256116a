# SPDX-License-Identifier: Apache-2.0
"""HTTPInput, HTTPReply and HTTPRequest, with real sockets on the loopback interface."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.errors import (
    AddressInUse,
    DestinationMissing,
    HttpClientGone,
    HttpHeaderInvalid,
    HttpRequestFailed,
    HttpStatusUnexpected,
    HttpUrlInvalid,
)
from entrepot.flows import http_listener
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.http_headers import charset_of, code_page_of
from entrepot.flows.http_listener import HttpSource, flow_mark, owner
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.nodes import find_type
from entrepot.message import Message
from entrepot.models.tree import Assembly, Root
from entrepot.testing.certificates import make_certificates, openssl
from folding import for_each

WAIT_S = 60.0
Change = Callable[[Assembly, Any], Any]


def service(change: Change | None = None, /, **properties: Any) -> FlowDefinition:
    """HTTPInput, perhaps a function, HTTPReply."""
    flow = FlowDefinition(properties.pop("flow_name", "orders"))
    reply = properties.pop("reply", {})
    flow.node("HTTPInput", "In", **{"path": "/orders", "port": 0, **properties})
    flow.node("HTTPReply", "Reply", **reply)
    if change is None:
        flow.link("In", "Reply")
    else:
        flow.node("Python", "Change", function=change)
        flow.link("In", "Change")
        flow.link("Change", "Reply")
    return flow


class Served:
    """A flow at work on a stage, with clients that wait for it."""

    def __init__(self, flow: FlowDefinition) -> None:
        self.kernel = Kernel(flow)
        self.stage = MemoryWorld()
        self.point = self.kernel.points[0]
        assert self.point.source is not None
        source = self.point.source()
        assert isinstance(source, HttpSource)
        self.source = source
        self.clients = ThreadPoolExecutor(8)

    def close(self) -> None:
        self.source.close()
        self.clients.shutdown()

    def ask(
        self, method: str = "POST", path: str = "/orders", body: bytes | None = b"", **headers: str
    ) -> Future[tuple[int, dict[str, str], bytes]]:
        return self.clients.submit(asked, self.source.port, method, path, body, headers)

    def take(self) -> Message:
        message = self.source.next(WAIT_S)
        assert message is not None
        return message

    def ask_in_time(self) -> tuple[Future[tuple[int, dict[str, str], bytes]], Message]:
        """A request that was taken before its time was up; a busy machine may miss that, but not each time."""
        for _ in range(100):
            waiting = self.ask()
            while not waiting.done():
                message = self.source.next(0.005)
                if message is not None:
                    return waiting, message
        raise AssertionError("no request was taken in time")

    def work(self) -> Any:
        """Deal with one request."""
        journey = self.stage.feed(self.kernel, self.point, self.take())
        self.source.committed()
        return journey

    def answer_to(self, *args: Any, **options: Any) -> tuple[int, dict[str, str], bytes]:
        waiting = self.ask(*args, **options)
        self.work()
        return waiting.result(WAIT_S)


@contextmanager
def serving(flow: FlowDefinition) -> Iterator[Served]:
    served = Served(flow)
    try:
        yield served
    finally:
        served.close()


def asked(port: int, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def raw(port: int, request: bytes) -> bytes:
    """What a server says to bytes that no client library would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        told = b""
        while piece := connection.recv(65_536):
            told += piece
        return told


def status_of(told: bytes) -> int:
    return int(told.split(b" ", 2)[1])


# --- HTTPInput and HTTPReply ------------------------------------------------------------------------


def test_a_request_is_answered_with_what_the_flow_makes_of_it() -> None:
    with serving(service()) as served:
        status, headers, body = served.answer_to(body=b"\x00\x01order")
    assert (status, body) == (200, b"\x00\x01order")
    assert headers["Content-Type"] == "application/octet-stream"


def test_the_tree_of_a_request_is_as_brokers_make_it() -> None:
    seen: list[Assembly] = []

    def look(assembly: Assembly, send: Any) -> Assembly:
        seen.append(assembly)
        return assembly

    with serving(service(look, domain="XMLNSC", parse_query=True)) as served:
        served.answer_to(
            "POST",
            "/orders?id=7&id=8",
            b"<order><id>7</id></order>",
            Content_Type="text/xml; charset=iso-8859-1",
            X_Remote_Addr="10.0.0.1",
        )
        port = served.source.port
    (assembly,) = seen
    root, local = assembly.root, assembly.local_environment
    assert [child.key for child in root.children] == ["Properties", "HTTPInputHeader", "XMLNSC"]
    header = root.first("HTTPInputHeader")
    assert header is not None
    assert header.get("X-Original-HTTP-Command") == f"POST http://127.0.0.1:{port}/orders?id=7&id=8 HTTP/1.1"
    assert header.get("X-Query-String") == "id=7&id=8"
    assert [child.value for child in header.all("X-Remote-Addr")] == ["127.0.0.1"]  # a client is not believed
    assert (header.get("X-Server-Port"), header.get("Content-Length")) == (str(port), "25")
    assert root.get("Properties", "CodedCharSetId") == 819
    assert root.get("Properties", "ContentType") == "text/xml; charset=iso-8859-1"
    assert root.get("XMLNSC", "order", "id") == "7"
    identifier = local.get("Destination", "HTTP", "RequestIdentifier")
    assert isinstance(identifier, bytes) and len(identifier) == 24
    assert root.get("Properties", "ReplyIdentifier") == identifier
    assert local.get("HTTP", "Input", "RequestLine", "Method") == "POST"
    query = local.first("HTTP").first("Input").first("QueryString")  # type: ignore[union-attr]
    assert query is not None and [(child.key, child.value) for child in query.children] == [("id", "7"), ("id", "8")]


def test_reply_status_and_headers_come_from_the_trees() -> None:
    def answer(assembly: Assembly, send: Any) -> Assembly:
        assembly.local_environment.first("Destination").first("HTTP").add("ReplyStatusCode", 201)  # type: ignore[union-attr]
        header = assembly.root.add("HTTPReplyHeader")
        header.add("Location", "/orders/7")
        header.add("Content-Length", "999")  # never believed
        return assembly

    with serving(service(answer, domain="JSON")) as served:
        status, headers, body = served.answer_to(body=b'{"id":7}')
    assert (status, headers["Location"], body) == (201, "/orders/7", b'{"id":7}')
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == "8"


def test_status_in_the_reply_header_counts_more_than_the_local_environment() -> None:
    def answer(assembly: Assembly, send: Any) -> Assembly:
        assembly.local_environment.first("Destination").first("HTTP").add("ReplyStatusCode", 201)  # type: ignore[union-attr]
        assembly.root.add("HTTPReplyHeader").add("X-Original-HTTP-Status-Code", 404)
        return assembly

    with serving(service(answer)) as served:
        status, headers, _ = served.answer_to()
    assert status == 404
    assert "X-Original-HTTP-Status-Code" not in headers


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-Bad", "a\r\nSet-Cookie: b"), ("No Name", "x"), ("X-Wide", "\u4e2d"), ("X-Original-HTTP-Status-Code", "ok")],
)
def test_headers_that_cannot_be_sent_are_an_error_of_the_node(name: str, value: str) -> None:
    def answer(assembly: Assembly, send: Any) -> Assembly:
        assembly.root.add("HTTPReplyHeader").add(name, value)
        return assembly

    with serving(service(answer)) as served:
        waiting = served.ask()
        journey = served.work()
        status, _, body = waiting.result(WAIT_S)
    assert status == 500
    assert isinstance(journey.failures[0].error, HttpHeaderInvalid)
    assert b"Traceback" not in body and b"HttpHeaderInvalid [F27]" in body


def test_a_flow_that_fails_answers_500_without_saying_what_happened_inside() -> None:
    def fail(assembly: Assembly, send: Any) -> Assembly:
        raise RuntimeError("the password of the database is hunter2")

    with serving(service(fail)) as served:
        status, _, body = served.answer_to()
        assert served.stage.queues == {}
    assert status == 500
    assert b"could not deal with this request" in body
    assert b"hunter2" not in body and b"RuntimeError" not in body


def test_the_failure_terminal_may_answer_instead() -> None:
    def fail(assembly: Assembly, send: Any) -> Assembly:
        raise RuntimeError("broken")

    def apologize(assembly: Assembly, send: Any) -> Assembly:
        assembly.root.add("HTTPReplyHeader").add("X-Original-HTTP-Status-Code", 422)
        return assembly

    flow = service(fail)
    flow.node("Python", "Sorry", function=apologize)
    flow.node("HTTPReply", "ReplyToo")
    flow.link("In", "Sorry", terminal="failure")
    flow.link("Sorry", "ReplyToo")
    with serving(flow) as served:
        status, _, _ = served.answer_to()
    assert status == 422


def test_a_body_that_is_no_message_of_its_domain_is_told_with_500() -> None:
    def read(assembly: Assembly, send: Any) -> Assembly:
        assembly.root.get("XMLNSC", "order", "id")
        return assembly

    with serving(service(read, domain="XMLNSC")) as served:
        status, _, body = served.answer_to(body=b"<order>")
    assert (status, b"MessageUnreadable [D01]" in body) == (500, True)


def test_the_answer_is_sent_when_the_unit_of_work_is_committed_and_not_before() -> None:
    with serving(service()) as served:
        waiting = served.ask(body=b"x")
        message = served.take()
        journey = served.kernel.process(served.point, message, served.stage)
        assert not waiting.done()
        served.source.backed_out()  # the unit was given back: the request comes again
        assert served.source.next(0) == message
        served.stage.settle(journey)
        assert waiting.result(WAIT_S)[0] == 200


def test_a_client_whose_time_is_up_gets_504_and_the_late_reply_is_dropped() -> None:
    with serving(service(timeout_s=0.05)) as served:
        waiting, message = served.ask_in_time()
        assert waiting.result(WAIT_S)[0] == 504
        journey = served.stage.feed(served.kernel, served.point, message)
        assert journey.failures == []


def test_a_late_reply_is_an_error_where_transport_failures_count() -> None:
    with serving(service(timeout_s=0.05, reply={"ignore_transport_failures": False})) as served:
        waiting, message = served.ask_in_time()
        waiting.result(WAIT_S)
        journey = served.stage.feed(served.kernel, served.point, message)
    assert isinstance(journey.failures[0].error, HttpClientGone)


def test_a_request_that_nobody_took_in_time_is_not_handed_out_any_more() -> None:
    with serving(service(timeout_s=0.05)) as served:
        assert served.ask().result(WAIT_S)[0] == 504
        assert served.source.next(0) is None


def test_unknown_paths_and_methods_are_refused() -> None:
    with serving(service(methods=["POST"])) as served:
        assert served.ask("POST", "/other").result(WAIT_S)[0] == 404
        status, headers, _ = served.ask("GET", body=None).result(WAIT_S)
    assert (status, headers["Allow"]) == (405, "POST")


def test_a_path_with_a_star_takes_everything_below_it_and_the_longest_wins() -> None:
    flow = service(path="/orders/*")
    flow.node("HTTPInput", "Urgent", path="/orders/urgent/*", port=0)
    flow.link("Urgent", "Reply")
    with serving(flow) as served:
        other = served.kernel.point("Urgent")
        assert other.source is not None
        urgent = other.source()
        assert isinstance(urgent, HttpSource) and urgent.port == served.source.port  # one listener for both
        assert served.answer_to(path="/orders/7")[0] == 200
        assert served.answer_to(path="/orders")[0] == 200
        waiting = served.ask(path="/orders/urgent/9")
        message = urgent.next(WAIT_S)
        assert message is not None
        served.stage.feed(served.kernel, other, message)
        assert waiting.result(WAIT_S)[0] == 200
        urgent.close()
        assert served.answer_to(path="/orders/urgent/9")[0] == 200  # now it is below /orders only


def test_connections_stay_open_for_the_next_request() -> None:
    with serving(service()) as served:
        connection = http.client.HTTPConnection("127.0.0.1", served.source.port, timeout=WAIT_S)
        for body in (b"one", b"two"):
            connection.request("POST", "/orders", body)
            own = connection.sock.getsockname()
            served.work()
            assert connection.getresponse().read() == body
        assert connection.sock.getsockname() == own
        connection.close()


def test_chunked_bodies_and_100_continue_are_understood() -> None:
    with serving(service()) as served, socket.create_connection(("127.0.0.1", served.source.port), WAIT_S) as client:
        client.sendall(
            b"POST /orders HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n")
        client.sendall(b"3;note=x\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: y\r\n\r\n")
        served.work()
        told = b""
        while piece := client.recv(1000):
            told += piece
    assert told.endswith(b"\r\n\r\nabcde")


def test_head_and_204_have_no_body() -> None:
    with serving(service(reply={"status": 204})) as served:
        status, headers, body = served.answer_to(body=b"x")
        assert (status, body, "Content-Length" in headers) == (204, b"", False)
    with serving(service()) as served:
        status, headers, body = served.answer_to("HEAD", body=None)
        assert (status, body) == (200, b"")


HOST = b"Host: x\r\n"


@for_each(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST /orders HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"POST /orders HTTP/1.1\r\n\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Bad Name: x\r\n\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"A: x\r\n folded\r\n\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"A: \x01\r\n\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nab", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Length: 999999999999\r\n\r\n", 503),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Length: 200000000\r\n\r\n", 413),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"Expect: wonders\r\n\r\n", 417),
        (b"POST orders HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"A: x\r\n" * 101 + b"\r\n", 431),
        (b"POST /orders HTTP/1.1\r\n" + HOST + b"A: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_bad_requests_are_refused_before_any_flow_sees_them(request_bytes: bytes, status: int) -> None:
    with serving(service()) as served:
        assert status_of(raw(served.source.port, request_bytes)) == status
        assert served.source.next(0) is None


def test_a_body_that_comes_too_slowly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.flows.http_requests.PATIENCE_S", 0.05)
    with serving(service()) as served, socket.create_connection(("127.0.0.1", served.source.port), WAIT_S) as client:
        client.sendall(b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab")
        assert status_of(client.recv(1000)) == 408


def test_a_head_that_does_not_come_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.flows.http_requests.IDLE_S", 0.05)
    with serving(service()) as served, socket.create_connection(("127.0.0.1", served.source.port), WAIT_S) as client:
        client.sendall(b"POST /orders")
        assert client.recv(1000) == b""


def test_who_comes_when_too_many_wait_gets_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "REQUESTS_MAX", 1)
    with serving(service()) as served:
        waiting = served.ask()
        message = served.take()
        status, headers, _ = served.ask().result(WAIT_S)
        assert (status, headers["Retry-After"]) == (503, "1")
        served.stage.feed(served.kernel, served.point, message)
        assert waiting.result(WAIT_S)[0] == 200


def test_bodies_that_wait_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "BYTES_MAX", 10)
    chunks = b"POST /orders HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n12345678\r\n"
    with serving(service()) as served:
        assert status_of(raw(served.source.port, chunks)) == 503
        assert served.answer_to(body=b"1234567890")[0] == 200  # what was refused is not counted any more


def test_clients_that_wait_when_the_flow_stops_get_503() -> None:
    served = Served(service())
    waiting = served.ask()
    served.take()
    served.close()
    assert waiting.result(WAIT_S)[0] == 503


def test_another_flow_cannot_have_a_port_that_is_taken() -> None:
    with serving(service()) as served:
        port = served.source.port
        other = Kernel(service(flow_name="other", port=port)).points[0].source
        assert other is not None
        with pytest.raises(AddressInUse, match="a port belongs to one flow"):
            other()


def test_a_program_that_is_no_listener_of_ours_keeps_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as server:
        done = threading.Thread(target=lambda: server.accept()[0].close())
        done.start()
        source = Kernel(service(port=server.getsockname()[1])).points[0].source
        assert source is not None
        with pytest.raises(AddressInUse):
            source()
        done.join(WAIT_S)


def test_instances_of_one_flow_share_their_port() -> None:
    with serving(service()) as served:
        port = served.source.port
        http_listener._require_own("orders", "127.0.0.1", port, None)  # what another process asks first
        second = http_listener.HttpListener("orders", "127.0.0.1", port, b"12345678", None)
        second.start()
        try:
            assert second.port == port
        finally:
            second.stop()


def test_an_address_of_another_machine_is_told() -> None:
    source = Kernel(service(bind="192.0.2.1")).points[0].source
    assert source is not None
    with pytest.raises(AddressInUse, match=r"192\.0\.2\.1"):
        source()


# --- replies from elsewhere -------------------------------------------------------------------------


def asking_flow() -> FlowDefinition:
    flow = FlowDefinition("asking")
    flow.node("HTTPInput", "In", path="/orders", port=0)
    flow.node("MQOutput", "Ask", queue="BACKEND")
    flow.link("In", "Ask")
    return flow


def replying_flow() -> FlowDefinition:
    flow = FlowDefinition("replying")
    flow.node("MQInput", "Answers", queue="ANSWERS")
    flow.node("Python", "Restore", function=_restore)
    flow.node("HTTPReply", "Reply")
    flow.link("Answers", "Restore")
    flow.link("Restore", "Reply")
    return flow


def _restore(assembly: Assembly, send: Any) -> Assembly:
    local = Root("LocalEnvironment")
    local.add("Destination").add("HTTP").add("RequestIdentifier", assembly.root.get("MQMD", "CorrelId"))
    return Assembly(assembly.root, None, local)


def test_a_reply_of_another_process_reaches_its_client_by_the_queue_of_the_flow() -> None:
    replying = Kernel(replying_flow())
    with serving(asking_flow()) as served:
        internal = served.kernel.points[1]
        assert internal.internal and internal.queue == f"SYSTEM.HTTP.REPLY.{flow_mark('asking')}"
        assert internal.selector == f"entrepot_http_owner = '{owner()}'"
        waiting = served.ask(body=b"question")
        served.work()
        (question,) = served.stage.queues["BACKEND"]
        assert question.body == b"question"
        answer = replace(question, body=b"answer", correlation_id=question.correlation_id)
        with pytest.MonkeyPatch.context() as elsewhere:
            elsewhere.setattr("entrepot.flows.nodes.http.owner", lambda: "0" * 16)
            served.stage.feed(replying, "ANSWERS", answer)
        assert not waiting.done()
        (reply,) = served.stage.queues[internal.queue]
        assert reply.properties["entrepot_http_owner"] == owner()
        assert reply.expiry_s is not None and reply.expiry_s < 182  # nobody wants it when the client has gone
        served.stage.feed(served.kernel, internal, reply)
        assert waiting.result(WAIT_S)[::2] == (200, b"answer")


def test_a_reply_that_cannot_be_read_is_dropped() -> None:
    with serving(asking_flow()) as served:
        journey = served.stage.feed(served.kernel, served.kernel.points[1], Message(b"junk"))
    assert len(journey.failures) == 1 and journey.outputs == []


def test_a_flow_that_has_all_replies_itself_needs_no_queue_for_them() -> None:
    assert [point.queue for point in Kernel(service()).points] == [""]


@pytest.mark.parametrize("identifier", [b"", b"short", b"a wrong one of more than 24 bytes"])
def test_an_identifier_that_is_none_is_told(identifier: bytes) -> None:
    journey = MemoryWorld().feed(Kernel(replying_flow()), "ANSWERS", Message(b"x", correlation_id=identifier))
    assert isinstance(journey.failures[0].error, DestinationMissing)


def test_a_reply_in_a_flow_that_nobody_has_asked_is_told() -> None:
    flow = FlowDefinition("bare")
    flow.node("MQInput", "In", queue="Q")
    flow.node("HTTPReply", "Reply")
    flow.link("In", "Reply")
    journey = MemoryWorld().feed(Kernel(flow), "Q", Message(b"x"))
    assert isinstance(journey.failures[0].error, DestinationMissing)


# --- HTTPRequest ------------------------------------------------------------------------------------


class Server:
    """A server that says what it is told to, over and over."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/service"

    def _run(self) -> None:
        while self._answers:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                connection.settimeout(WAIT_S)
                while self._answers and self._exchange(connection):
                    pass

    def _exchange(self, connection: socket.socket) -> bool:
        told = b""
        while b"\r\n\r\n" not in told:
            try:
                piece = connection.recv(65_536)
            except OSError:
                return False
            if not piece:
                return False
            told += piece
        head, _, body = told.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += connection.recv(65_536)
        self.requests.append(head + b"\r\n\r\n" + body)
        answer = self._answers.pop(0)
        connection.sendall(answer)
        return b"Connection: close" not in answer and bool(answer)

    def close(self) -> None:
        self._socket.close()


def ok(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@contextmanager
def a_server(*answers: bytes) -> Iterator[Server]:
    server = Server(*answers)
    try:
        yield server
    finally:
        server.close()


def client(url: str, *terminals: str, change: Change | None = None, **properties: Any) -> FlowDefinition:
    """MQInput, HTTPRequest, and a queue for each terminal; what arrives there is kept."""
    flow = FlowDefinition("client")
    flow.node("MQInput", "In", queue="IN", domain=properties.pop("input_domain", ""))
    flow.node("HTTPRequest", "Call", **{"url": url, "timeout_s": WAIT_S, **properties})
    if change is None:
        flow.link("In", "Call")
    else:
        flow.node("Python", "Change", function=change)
        flow.link("In", "Change")
        flow.link("Change", "Call")
    for terminal in terminals:
        flow.node("Python", f"Keep.{terminal}", function=_Kept())
        flow.link("Call", f"Keep.{terminal}", terminal=terminal)
    return flow


class _Kept:
    def __init__(self) -> None:
        self.assemblies: list[Assembly] = []

    def __call__(self, assembly: Assembly, send: Any) -> None:
        self.assemblies.append(assembly)


def call(flow: FlowDefinition, body: bytes = b"question", times: int = 1) -> tuple[Any, dict[str, list[Assembly]]]:
    kernel = Kernel(flow)
    stage = MemoryWorld()
    journey = None
    for _ in range(times):
        journey = stage.feed(kernel, "IN", Message(body))
    kept = {
        name.removeprefix("Keep."): node.properties["function"].assemblies
        for name, node in flow.nodes.items()
        if name.startswith("Keep.")
    }
    return journey, kept


def test_the_response_goes_on_with_its_headers() -> None:
    with a_server(ok(b"<a><b>1</b></a>", b"Content-Type: text/xml; charset=utf-8", b"X-Own: 1")) as server:
        _, kept = call(client(server.url, "out", domain="XMLNSC"))
    (assembly,) = kept["out"]
    assert [child.key for child in assembly.root.children] == ["Properties", "HTTPResponseHeader", "XMLNSC"]
    assert assembly.root.get("XMLNSC", "a", "b") == "1"
    assert assembly.root.get("HTTPResponseHeader", "X-Original-HTTP-Status-Line") == "HTTP/1.1 200 OK"
    assert assembly.root.get("HTTPResponseHeader", "X-Original-HTTP-Status-Code") == 200
    assert assembly.root.get("HTTPResponseHeader", "X-Own") == "1"
    assert assembly.local_environment.get("WrittenDestination", "HTTP", "RequestURL") == server.url
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /service HTTP/1.1\r\n") and body == b"question"


def test_request_line_headers_and_query_come_from_the_trees() -> None:
    def prepare(assembly: Assembly, send: Any) -> Assembly:
        header = assembly.root.add("HTTPRequestHeader")
        header.add("Authorization", "Bearer x")
        header.add("Content-Type", "text/plain")
        http_tree = assembly.local_environment.add("Destination").add("HTTP")
        http_tree.add("RequestURL", server.url.replace("/service", "/other?a=1"))
        http_tree.add("RequestLine").add("Method", "PUT")
        http_tree.add("QueryString").add("b", "x y")
        return assembly

    with a_server(ok(b"")) as server:
        call(client("http://127.0.0.1:1/never", "out", change=prepare))
    head = server.requests[0]
    assert head.startswith(b"PUT /other?a=1&b=x+y HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer x\r\n" in head and b"\r\nContent-Type: text/plain\r\n" in head


def test_the_url_in_the_request_header_counts_most() -> None:
    def prepare(assembly: Assembly, send: Any) -> Assembly:
        assembly.root.add("HTTPRequestHeader").add("X-Original-HTTP-URL", server.url)
        assembly.local_environment.add("Destination").add("HTTP").add("RequestURL", "http://127.0.0.1:1/")
        return assembly

    with a_server(ok(b"")) as server:
        _, kept = call(client("http://127.0.0.1:1/never", "out", change=prepare))
        assert len(kept["out"]) == 1
    assert b"X-Original" not in server.requests[0]


def test_one_connection_serves_many_messages() -> None:
    with a_server(ok(b"1"), ok(b"2"), ok(b"3", b"Connection: close"), ok(b"4")) as server:
        _, kept = call(client(server.url, "out"), times=4)
        assert [assembly.root.children[-1].render() for assembly in kept["out"]] == [b"1", b"2", b"3", b"4"]  # type: ignore[attr-defined]
        assert server.connections == 2


@pytest.mark.parametrize("status", [b"404 Not Found", b"500 Broken", b"302 Found"])
def test_a_status_that_is_no_success_goes_to_the_error_terminal(status: bytes) -> None:
    with a_server(ok(b"sorry", b"Location: http://127.0.0.1:1/", status=status)) as server:
        _, kept = call(client(server.url, "out", "error"))
    assert kept["out"] == []
    (assembly,) = kept["error"]
    assert assembly.root.get("HTTPResponseHeader", "X-Original-HTTP-Status-Code") == int(status[:3])


def test_such_a_status_is_an_error_of_the_node_when_nothing_is_connected() -> None:
    with a_server(ok(b"sorry", status=b"404 Not Found")) as server:
        journey, kept = call(client(server.url, "out"))
    assert kept["out"] == []
    assert isinstance(journey.failures[0].error, HttpStatusUnexpected)


def test_redirections_are_followed_when_asked_for() -> None:
    with a_server(ok(b"", b"Location: /moved", status=b"303 See Other"), ok(b"here")) as server:
        _, kept = call(client(server.url, "out", follow_redirects=True))
    assert len(kept["out"]) == 1
    assert server.requests[1].startswith(b"GET /moved HTTP/1.1\r\n")


def test_redirections_without_end_are_a_failure() -> None:
    with a_server(*[ok(b"", b"Location: /again", status=b"302 Found")] * 6) as server:
        journey, _ = call(client(server.url, "out", follow_redirects=True))
    assert isinstance(journey.failures[0].error, HttpRequestFailed)


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    _, kept = call(client(f"http://127.0.0.1:{port}/", "out", "failure"))
    assert kept["out"] == []
    (assembly,) = kept["failure"]
    told = assembly.exception_list.first("RecoverableException").first("RecoverableException")  # type: ignore[union-attr]
    assert told is not None and "no answer from" in told.get("Text")


@pytest.mark.parametrize(
    "answer", [b"", b"what?\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nab"]
)
def test_a_server_that_speaks_no_http_is_a_failure(answer: bytes) -> None:
    with a_server(answer) as server:
        journey, kept = call(client(server.url, "out"))
    assert kept["out"] == []
    assert isinstance(journey.failures[0].error, HttpRequestFailed)


def test_a_server_that_takes_too_long_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        journey, _ = call(client(f"http://127.0.0.1:{silent.getsockname()[1]}/", "out", timeout_s=0.05))
    error = journey.failures[0].error
    assert isinstance(error, HttpRequestFailed) and "timed out" in error.problem


def test_a_server_that_answers_byte_by_byte_has_no_more_time_than_others() -> None:
    answer = b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 100 + b"\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as slow:

        def dribble() -> None:
            connection, _ = slow.accept()
            with connection, contextlib.suppress(OSError):
                for byte in answer:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.02)

        thread = threading.Thread(target=dribble)
        thread.start()
        journey, _ = call(client(f"http://127.0.0.1:{slow.getsockname()[1]}/", "out", timeout_s=0.3))
        thread.join()
    error = journey.failures[0].error
    assert isinstance(error, HttpRequestFailed) and "timed out" in error.problem


@pytest.mark.skipif(openssl() is None, reason="needs the openssl command")
def test_https_is_served_and_certificates_are_checked(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "tls", ["server"])
    own = tmp_path / "tls" / "server"
    secure = service(https=True, certificate=str(own / "cert.pem"), private_key=str(own / "key.pem"))
    with serving(secure) as served:
        url = f"https://localhost:{served.source.port}/orders"
        answered = served.clients.submit(call, client(url, "out", authorities=str(made.authority)), b"secret")
        served.work()
        assert served.source.next(0) is None
        journey, kept = answered.result(WAIT_S)
        assert journey.failures == [] and len(kept["out"]) == 1
        http_listener._require_own("orders", "127.0.0.1", served.source.port, ssl.create_default_context())
        journey, _ = call(client(url, "out"))
    error = journey.failures[0].error
    assert isinstance(error, HttpRequestFailed) and "certificate" in error.problem


@pytest.mark.parametrize(
    "url", ["ftp://x/", "http:///x", "http://x:99999/", "http://a b/", "http://u:p@x/", "nonsense"]
)
def test_urls_that_lead_nowhere_are_told(url: str) -> None:
    def prepare(assembly: Assembly, send: Any) -> Assembly:
        assembly.local_environment.add("Destination").add("HTTP").add("RequestURL", url)
        return assembly

    journey, _ = call(client("http://127.0.0.1:1/", "out", change=prepare))
    assert isinstance(journey.failures[0].error, HttpUrlInvalid)


def test_a_part_of_the_tree_can_be_sent_and_the_response_put_beside_it() -> None:
    with a_server(ok(b"<stock>5</stock>")) as server:
        flow = client(
            server.url,
            "out",
            input_domain="XMLNSC",
            domain="XMLNSC",
            use_whole_message=False,
            request_path="InputRoot.XMLNSC.order.item",
            replace_message=False,
            response_path="OutputRoot.XMLNSC.order.found",
        )
        _, kept = call(flow, b"<order><item>7</item></order>")
    assert server.requests[0].endswith(b"\r\n\r\n<item>7</item>")
    (assembly,) = kept["out"]
    assert assembly.root.get("XMLNSC", "order", "item") == "7"
    assert assembly.root.get("XMLNSC", "order", "found", "stock") == "5"


def test_a_part_that_is_not_there_is_told() -> None:
    flow = client(
        "http://127.0.0.1:1/", "out", input_domain="JSON", use_whole_message=False, request_path="InputRoot.JSON.Data.x"
    )
    journey, _ = call(flow, b"{}")
    assert isinstance(journey.failures[0].error, DestinationMissing)


# --- definitions ------------------------------------------------------------------------------------


@for_each(
    ("type_name", "properties", "problem"),
    [
        ("HTTPInput", {"path": "orders"}, "is no path"),
        ("HTTPInput", {"path": "/a*b"}, "is no path"),
        ("HTTPInput", {"path": "/a", "port": 70_000}, "there is no port 70000"),
        ("HTTPInput", {"path": "/a", "timeout_s": 0}, "cannot wait 0 s"),
        ("HTTPInput", {"path": "/a", "methods": ["FETCH"]}, "there is no method 'FETCH'"),
        ("HTTPInput", {"path": "/a", "https": True}, "https needs a certificate"),
        ("HTTPReply", {"status": 99}, "99 is no status"),
        ("HTTPRequest", {"url": "ftp://x"}, "is no URL"),
        ("HTTPRequest", {"url": "http://x", "use_whole_message": False}, "which part to send"),
        ("HTTPRequest", {"url": "http://x", "replace_message": False}, "where the response goes"),
        ("HTTPRequest", {"url": "http://x", "response_path": "Nowhere.x"}, "there is no tree"),
        ("HTTPRequest", {"url": "http://x", "timeout_s": -1}, "cannot wait -1 s"),
    ],
)
def test_definitions_with_mistakes_are_told(type_name: str, properties: dict[str, Any], problem: str) -> None:
    flow = FlowDefinition("f")
    definition = flow.node(type_name, "N", **properties)
    assert any(problem in mistake.problem for mistake in find_type(type_name).check(definition, flow))


def test_two_nodes_cannot_have_one_path() -> None:
    flow = FlowDefinition("f")
    first = flow.node("HTTPInput", "A", path="/a")
    flow.node("HTTPInput", "B", path="http://localhost/a")
    assert "B has the path /a too" in find_type("HTTPInput").check(first, flow)[0].problem


def test_charsets_are_code_pages() -> None:
    assert code_page_of("text/xml; charset=UTF-8") == 1208
    assert code_page_of('text/xml; charset="ISO-8859-1"') == 819
    assert code_page_of("text/xml; charset=nonsense") == 1208
    assert [charset_of(ccsid) for ccsid in (1208, 819, 912, 1252)] == [
        "utf-8",
        "iso-8859-1",
        "iso-8859-2",
        "windows-1252",
    ]
