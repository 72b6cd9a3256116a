# SPDX-License-Identifier: Apache-2.0
"""A queue manager with an AMQP listener on the loopback interface, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from entrepot.engine.definitions import Listener
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.server.admission import Admission
from entrepot.server.amqp.protocol import AmqpProtocol
from entrepot.server.mqsc import run_script
from entrepot.server.security.authority import Authority
from entrepot.server.security.users import Users
from entrepot.server.session_registry import SessionRegistry
from hosted import Host

LOG = LogSettings(segment_bytes=8 * 1024 * 1024, primary=3, secondary=4)

SCRIPT = """
DEFINE CHANNEL(AMQP.APP) CHLTYPE(SVRCONN) MCAUSER('guest') HBINT(60)
DEFINE QLOCAL(Q) MAXDEPTH(100000) MAXMSGL(8388608)
DEFINE QLOCAL(BACKOUT)
DEFINE QLOCAL(ORDERS) BOQNAME(BACKOUT) BOTHRESH(3)
DEFINE QLOCAL(SMALL) MAXDEPTH(2)
DEFINE QLOCAL(TINY) MAXMSGL(1000)
DEFINE QLOCAL(SECRET)
DEFINE TOPIC(OPEN) TOPICSTR('open')
DEFINE TOPIC(NEWS) TOPICSTR('news')
DEFINE TOPIC(CLOSED) TOPICSTR('open/closed') PUB(DISABLED) SUB(DISABLED)
DEFINE TOPIC(FLEETING) TOPICSTR('open/fleeting') DURSUB(NO)
DEFINE TOPIC(STRICT) TOPICSTR('open/strict') PMSGDLV(ALL) NPMSGDLV(ALL) USEDLQ(NO)
SET AUTHREC PROFILE('OPEN') OBJTYPE(TOPIC) PRINCIPAL('guest') AUTHADD(PUB,SUB)
SET AUTHREC PROFILE('OPEN') OBJTYPE(TOPIC) PRINCIPAL('app') AUTHADD(PUB,SUB)
SET AUTHREC PROFILE('NEWS') OBJTYPE(TOPIC) PRINCIPAL('guest') AUTHADD(SUB)
SET AUTHREC PROFILE('NEWS') OBJTYPE(TOPIC) PRINCIPAL('app') AUTHADD(PUB)
SET AUTHREC PROFILE('QM1') OBJTYPE(QMGR) PRINCIPAL('guest') AUTHADD(CONNECT)
SET AUTHREC PROFILE('QM1') OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('guest') AUTHADD(PUT,GET,BROWSE)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET,BROWSE)
SET AUTHREC PROFILE('SECRET') OBJTYPE(QUEUE) PRINCIPAL('guest') AUTHADD(DSP)
"""


class AmqpServer:
    """Runs until `stop`; `call` does something on its loop."""

    def __init__(self, path: Path, *, handshake_s: int = 10, log: LogSettings = LOG) -> None:
        if not path.exists():
            create(path, log=log)
        self._path = path
        self._listener = Listener(name="AMQP", protocol="AMQP", port=0, channel="AMQP.APP", handshake_s=handshake_s)
        self.registry: SessionRegistry = None  # type: ignore[assignment]
        self.host: Host = None  # type: ignore[assignment]
        self.port = 0
        self._loop = uvloop.new_event_loop()
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._stopping: asyncio.Event
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        if self._problem is not None:
            raise self._problem

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._problem = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self.host = host = Host(self._path)
        _define(host)
        users = Users.load(self._path)
        if "app" not in users.names():
            users.add("app", "passw0rd-of-app")
            users.save()
        authority = Authority()
        self.registry = registry = SessionRegistry(host, authority)
        self.admission = admission = Admission(host, users, authority, lambda *_, **__: None)
        self._stopping = asyncio.Event()
        server = await self._loop.create_server(
            lambda: AmqpProtocol(registry, admission, self._listener), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for link in list(registry.links):
            link.close(None)
        for _ in range(3_000):
            if not registry.links:
                break
            await asyncio.sleep(0.01)
        await asyncio.to_thread(registry.close)
        await asyncio.to_thread(host.close)

    def call(self, what: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(60)

    def depth(self, queue: str) -> int:
        return int(self.host.queue_status(queue)["CURDEPTH"])

    def mqsc(self, script: str) -> None:
        answers = run_script(script, self.host, "test")
        assert [str(error) for answer in answers for error in answer.errors] == []
        self.call(self.admission.refresh)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(60)


def _define(host: Host) -> None:
    if host.find("QLOCAL", "Q") is None:
        answers = run_script(SCRIPT, host, "test")
        problems = [str(error) for answer in answers for error in answer.errors]
        assert problems == [], problems
