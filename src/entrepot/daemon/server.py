# SPDX-License-Identifier: Apache-2.0
"""A queue manager as a process: its host, its listeners and channels, from start to stop.

    server = await Server.start(path)
    await server.stopped()

The Unix socket in its folder is always there (the standard binding). TCP
listeners are those that are defined. Off the loopback interface none
starts without a way to authenticate.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from entrepot import checks
from entrepot.channels.dialler import Dialler
from entrepot.channels.initiator import ChannelInitiator
from entrepot.channels.neighbours import Neighbours
from entrepot.daemon.acceptor import HANDSHAKES_MAX, Acceptor, connections_max, listen_at
from entrepot.disk import DESCRIPTORS
from entrepot.engine.coordinator import HostCoordinator
from entrepot.engine.databases.watch import ResourceWatch
from entrepot.engine.definitions import Channel, Listener, require_name
from entrepot.engine.host import Host
from entrepot.engine.restart import Progress
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import (
    AddressInUse,
    ChannelNotAvailable,
    EntrepotError,
    ExtraMissing,
    HeartbeatMissed,
    InvalidSetting,
    ListenerUnsafe,
    NotAuthorized,
    ObjectNotFound,
    QueueManagerQuiescing,
    QueueManagerStopped,
    UserLimitReached,
)
from entrepot.server.admission import Admission
from entrepot.server.connection_limiter import ConnectionLimiter
from entrepot.server.managed import manage
from entrepot.server.memory_watch import MemoryWatch
from entrepot.server.native_connection import NativeConnection
from entrepot.server.security.addresses import parse_address
from entrepot.server.security.audit import AuditFields, AuditLog
from entrepot.server.security.authority import Authority
from entrepot.server.security.credentials import Credentials
from entrepot.server.security.tls import client_context, server_context
from entrepot.server.security.users import Users
from entrepot.server.served_host import ServedHost
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity, SessionRegistry
from entrepot.server.supervision import SupervisedManager
from entrepot.server.wire.frame import SOCKET

_LOGGER = logging.getLogger("entrepot")

_BACKLOG = 4096
_CARE_S = 1.0
_MEMORY_LOOK_S = 0.2
_SILENCE = 2.5
"""A partner that says nothing for so many heartbeats is taken for dead."""
_CONTROL_S = 30.0
_PATIENCE_S = 10.0
"""How long partners may take to end their units of work when the server stops."""
_DESCRIPTORS_KEPT = 16
"""For files of the log, runs and checkpoints, of which few are open at a time."""
_FAREWELL_S = 0.05
"""Who asks us to stop gets his answer first."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The loop a server runs on: uvloop's, which costs less for each message."""
    import uvloop

    return uvloop.new_event_loop()


class RunningListener:
    """A listener that accepts connections."""

    def __init__(self, definition: Listener, server: asyncio.Server | Acceptor, gate: ConnectionLimiter) -> None:
        self.definition = definition
        self.server = server
        self.gate = gate

    def status(self) -> dict[str, int | float | str]:
        definition = self.definition
        return {
            "LISTENER": definition.name,
            "STATUS": "RUNNING",
            "PID": os.getpid(),
            "PORT": self.server.sockets[0].getsockname()[1] if self.server.sockets else definition.port,
            "IPADDR": definition.address,
            "BACKLOG": definition.backlog,
            "CONTROL": definition.control,
            "PROTOCOL": definition.protocol,
            "TLS": "YES" if definition.tls else "NO",
            "CONNS": self.gate.connections,
        }


class Server:
    """A running server; its methods are for the loop's thread unless they say otherwise."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.path = host.path
        self.authority = Authority()
        self.registry = SessionRegistry(host, self.authority)
        self.users = Users.load(self.path)
        self.audit = AuditLog.open(self.path)
        self._audit_failing = False
        self.admission = Admission(host, self.users, self.authority, self._audited)
        self._dialler = Dialler(self._tls_of_sender)
        self.channels = ChannelInitiator(self.registry, open_connection=self._dialler.dial, credentials=self._presented)
        self.neighbours = Neighbours(self.registry)
        self._resources = ResourceWatch(self.path, HostCoordinator(host))
        self.listeners: dict[str, RunningListener] = {}
        self._unix: asyncio.Server | None = None
        DESCRIPTORS.keep(_DESCRIPTORS_KEPT)
        most = connections_max()
        together = ConnectionLimiter(most, most)
        # An administrator must come in though strangers have taken all that they may.
        self._gate = ConnectionLimiter(max(most - most // 8, 1), max(most * 3 // 4, 1), together)
        """All connections by way of the network; one address does not have them all."""
        self._unix_gate = ConnectionLimiter(most, most, together)
        self.registry.memory = MemoryWatch()
        self._turned_away = 0
        self._care: asyncio.TimerHandle | None = None
        self._stopping = False
        self._hastened = False
        self.failed = False
        """Whether it stopped because its disk failed."""
        self._stopped = asyncio.Event()
        self.registry.supervised = lambda session: SupervisedManager(host, session.identity, self.authority, self)
        self.registry.managed = self._managed
        self.registry.refused = self.refused
        self.registry.aged = self._aged
        self._thread = threading.get_ident()

    # --- start --------------------------------------------------------------------------------

    @classmethod
    async def start(cls, path: Path | str, *, progress: Progress | None = None) -> Server:
        """Start a queue manager and let everybody in.

        Raises:
            RecoveryError: It cannot be started; the error says why. Nothing was lost.
            ListenerUnsafe, AddressInUse: A listener cannot start, so the queue manager does not either.
        """
        host = await asyncio.to_thread(lambda: ServedHost(path, progress=progress))
        try:
            server = cls(host)
            await server._open()
        except BaseException:
            await asyncio.to_thread(host.close)
            raise
        return server

    async def _open(self) -> None:
        await self._listen_locally()
        try:
            for definition in list(self.host.definitions()):
                if isinstance(definition, Listener) and definition.control == "QMGR":
                    await self.start_listener(definition.name)
        except BaseException:
            await self._close_listeners()
            self.audit.close()
            self.registry.close()
            raise
        self.channels.open()
        self.neighbours.open()
        self._resources.start()
        self._audited("started", reason=f"start {self.host.manager.incarnation}")
        self._look_after()
        self._watch_memory()

    async def _listen_locally(self) -> None:
        # By way of a descriptor, because the path of a Unix socket has at most 107 bytes.
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                # The folder's lock is ours, so a socket that is there is a dead server's.
                os.unlink(SOCKET, dir_fd=folder)
            listening.bind(f"/proc/self/fd/{folder}/{SOCKET}")
            Path(f"/proc/self/fd/{folder}/{SOCKET}").chmod(0o600)
        finally:
            os.close(folder)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        self._unix = await asyncio.get_running_loop().create_unix_server(
            lambda: self._native(self._unix_gate), sock=listening, backlog=_BACKLOG
        )

    def _native(self, gate: ConnectionLimiter, handshake_s: float = 10.0) -> NativeConnection:
        return NativeConnection(self.registry, self.admission, gate, self.channels.receivers.accept, handshake_s)

    async def start_listener(self, name: str) -> None:
        """Accept connections as a LISTENER object says.

        Raises:
            ListenerUnsafe: Off the loopback interface, and nobody could show who he is.
            AddressInUse: Somebody else listens there.
        """
        definition = self.host.find("LISTENER", name)
        if not isinstance(definition, Listener):
            raise ObjectNotFound("LISTENER", name)
        await self.listen(definition)

    async def listen(self, definition: Listener) -> None:
        """The same for a listener that need not be an object."""
        name = definition.name
        if name in self.listeners:
            raise ChannelNotAvailable(name, "this listener runs already")
        context = self._tls(definition)
        self._require_safe(definition, client_certificates=context is not None and context.verify_mode != 0)
        gate = ConnectionLimiter(definition.connections_max, definition.connections_per_address_max, self._gate)
        make = self._factory(definition, gate)
        server: asyncio.Server | Acceptor
        address, port, backlog = definition.address, definition.port, definition.backlog
        try:
            if context is None:
                loop = asyncio.get_running_loop()
                server = await loop.create_server(make, address, port, backlog=backlog, reuse_address=True)
            else:
                handshakes = ConnectionLimiter(HANDSHAKES_MAX, definition.connections_per_address_max, self._gate)
                sockets = listen_at(address, port, backlog)
                server = Acceptor(sockets, make, context, definition.handshake_s, handshakes, self._not_encrypted)
        except OSError as error:
            raise AddressInUse(f"{address}({port})", error.strerror or str(error)) from error
        self.listeners[name] = RunningListener(definition, server, gate)
        _LOGGER.info("%s: listener %s accepts connections", self.host.settings.name, name)

    async def listen_for_amqp(self, port: int, channel: str) -> None:
        """Accept AMQP clients on a port of the loopback interface, by way of a channel that admits them.

        AMQP names no channel, and the rules of a new queue manager keep everybody off those of the system. A channel
        that is made here has no user of its own: whoever comes shows the password of a user, or a certificate.
        """
        if self.host.find("CHANNEL", channel) is None:
            definition = Channel(name=require_name("channel", channel), channel_type="SVRCONN")
            await asyncio.to_thread(self.host.define, definition, replace=False)
            self._authorities_changed()
        await self.listen(Listener(name="COMMAND.LINE.AMQP", port=port, protocol="AMQP", channel=channel))

    def admission_advice(self) -> list[str]:
        """What is missing before anybody can come in through the network."""
        if not self.listeners or self.users.names():
            return []
        path = self.path
        return [
            "Nobody can come in there yet, because there are no users. To make one that may use all queues:",
            f"  entrepot qm user add {path} NAME",
            f"  entrepot mqsc {path} -e \"SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('NAME') AUTHADD(CONNECT)\"",
            f"  entrepot mqsc {path} -e \"SET AUTHREC PROFILE(**) OBJTYPE(QUEUE) PRINCIPAL('NAME') AUTHADD(PUT,GET)\"",
        ]

    def _not_encrypted(self, address: str, reason: str) -> None:
        self._audited("refused", address=address, reason=f"no TLS: {reason}")

    def _factory(self, definition: Listener, gate: ConnectionLimiter) -> Callable[[], asyncio.BaseProtocol]:
        if definition.protocol == "AMQP":
            return self._amqp(definition, gate)
        return lambda: self._native(gate, definition.handshake_s)

    def _amqp(self, definition: Listener, gate: ConnectionLimiter) -> Callable[[], asyncio.BaseProtocol]:
        # Imported here, because proton is an extra that a queue manager without AMQP does not need.
        try:
            from entrepot.server.amqp.protocol import AmqpProtocol
        except ImportError as error:
            raise ExtraMissing("AMQP", "amqp") from error
        return lambda: AmqpProtocol(self.registry, self.admission, definition, gate)

    def _tls_of_sender(self, definition: Channel) -> ssl.SSLContext | None:
        """How a sender channel encrypts, with our own certificate if the other end wants to see one."""
        if not definition.tls:
            return None
        folder = self.path / self.host.manager_attributes().tls_folder
        has_own = (folder / "cert.pem").exists() and (folder / "key.pem").exists()
        own = (folder / "cert.pem", folder / "key.pem") if has_own else (None, None)
        return client_context(folder / "ca.pem", *own)

    def _presented(self, definition: Channel) -> tuple[str, str]:
        """Whom a sender channel presents itself as, and the password for that."""
        if not definition.remote_user:
            return "", ""
        return definition.remote_user, Credentials.load(self.path).password_for(definition.name) or ""

    def _tls(self, definition: Listener) -> Any:
        if not definition.tls:
            return None
        folder = self.host.manager_attributes().tls_folder
        if not folder:
            raise InvalidSetting(f"TLS of LISTENER({definition.name})", "YES", "SSLKEYR of the queue manager is set")
        where = self.path / folder
        return server_context(where, "optional" if (where / "ca.pem").exists() else "none")

    def _require_safe(self, definition: Listener, *, client_certificates: bool) -> None:
        address = parse_address(definition.address)
        if definition.address == "localhost" or (address is not None and address.is_loopback):
            return
        passwords = bool(self.users.names()) and self.host.manager_attributes().password_check != "NONE"  # noqa: S105
        if not passwords and not client_certificates:
            raise ListenerUnsafe(definition.name, definition.address)

    # --- while it runs --------------------------------------------------------------------------

    def _look_after(self) -> None:
        """Once a second: end what has fallen silent, and stop when the engine has."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for link in list(self.registry.links):
            if isinstance(link, NativeConnection):
                link.reassure()
            silent_s = now - link.heard
            if link.heartbeat_s and silent_s > _SILENCE * link.heartbeat_s:
                peer = link.session.identity.address if link.session else "the other end"
                link.close(HeartbeatMissed(peer, silent_s))
            elif isinstance(link, NativeConnection) and link.has_hung_up():
                link.close()
        if self.host.failure is not None and not self._stopping:
            _LOGGER.error("%s: %s", self.host.settings.name, self.host.failure)
            self.failed = True
            loop.create_task(self.stop(immediate=True))  # noqa: RUF006  # the server itself outlives it
            return
        age_s_max = self.host.manager_attributes().unit_age_s_max
        for session in list(self.registry.sessions.values()) if age_s_max else ():
            session.back_out_old(age_s_max)
        with contextlib.suppress(EntrepotError):
            self.audit.settle()
        DESCRIPTORS.refill()
        self._tell_of_those_turned_away()
        self._care = loop.call_later(_CARE_S, self._look_after)

    def _watch_memory(self) -> None:
        """More often than once a second: a hundred thousand small messages may come in that time."""
        self._gate.is_closed = self.registry.memory.look()
        if not self._stopping:
            asyncio.get_running_loop().call_later(_MEMORY_LOOK_S, self._watch_memory)

    def _tell_of_those_turned_away(self) -> None:
        gates = [self._gate, self._unix_gate, *(listener.gate for listener in self.listeners.values())]
        turned_away = sum(gate.turned_away for gate in gates)
        if turned_away > self._turned_away:
            _LOGGER.warning(
                "%s: %d connections were turned away within a second: there are as many as the process or a listener "
                "may have (%d through the network, %d on this machine), or memory is short",
                self.host.settings.name,
                turned_away - self._turned_away,
                self._gate.connections,
                self._unix_gate.connections,
            )
        self._turned_away = max(turned_away, self._turned_away)

    def _audited(self, event: str, **fields: Any) -> None:
        try:
            self.audit.write(event, **fields)
        except EntrepotError as error:
            # Once: with a line for each connection the log of a full disk would be about nothing else.
            if not self._audit_failing:
                _LOGGER.error("%s: %s", self.host.settings.name, error)
            self._audit_failing = True
        else:
            self._audit_failing = False

    def refused(self, identity: Identity, error: NotAuthorized | UserLimitReached) -> None:
        """A verb was refused for want of authority, or at a limit; from any thread."""
        if isinstance(error, NotAuthorized):
            self._audited("refused", **_who(identity), object=error.object, reason=f"no {error.authority} authority")
        else:
            self._audited("refused", **_who(identity), object=error.keyword, reason=f"limit reached: {error.what}")

    def _aged(self, identity: Identity, unit: Unit, age_s_max: float) -> None:
        reason = f"unit of work {unit.number} was open for more than UOWAGE({age_s_max:.0f}) seconds"
        self._audited("backed out", **_who(identity), reason=reason)

    # --- control, from the office's thread ------------------------------------------------------

    def on_loop(self, work: Callable[[], Any] | Coroutine[Any, Any, Any]) -> Any:
        """Do something on the loop and wait for it; never from the loop's own thread."""
        assert threading.get_ident() != self._thread

        async def called() -> Any:
            return work() if not asyncio.iscoroutine(work) else await work

        return asyncio.run_coroutine_threadsafe(called(), self.registry.loop).result(_CONTROL_S)

    def definitions_changed(self) -> None:
        """Authorities, rules or the queue manager's own attributes have changed."""
        self.on_loop(self._authorities_changed)

    def _authorities_changed(self) -> None:
        self.admission.refresh()
        self.registry.authority_epoch += 1
        self.neighbours.refresh()

    def commanded(self, identity: Identity, verb: str, kind: str, name: str) -> None:
        """An administrator's command is about to be carried out.

        Raises:
            AuditFailed: It cannot be written down, so it is not carried out.
        """
        fields: AuditFields = {**_who(identity), "object": f"{verb} {kind} {name}"}
        self.audit.write("command", **fields)

    def reset_channel(self, name: str, sequence: int) -> None:
        self.on_loop(self.channels.reset(name, sequence))

    def resolve_channel(self, name: str, *, commit: bool) -> None:
        self.on_loop(self.channels.resolve(name, commit=commit))

    def ping_channel(self, name: str) -> str:
        return str(self.on_loop(self.channels.ping(name)))

    def start_object(self, kind: str, name: str) -> None:
        """START LISTENER and START CHANNEL."""
        if kind == "LISTENER":
            self.on_loop(self.start_listener(name))
        else:
            self.on_loop(lambda: self._start_channel(name))

    def _start_channel(self, name: str) -> None:
        definition = self.host.find("CHANNEL", name)
        if isinstance(definition, Channel) and definition.channel_type == "SVRCONN":
            self.admission.stopped.discard(name)
        else:
            self.channels.start(name)

    def stop_object(self, kind: str, name: str, *, force: bool, inactive: bool) -> None:
        """STOP LISTENER, STOP CHANNEL and STOP CONN."""
        if kind == "LISTENER":
            self.on_loop(lambda: self._stop_listener(name))
            return
        if kind == "CONN":
            self.on_loop(lambda: self._stop_connection(name))
            return
        self.on_loop(lambda: self._stop_channel(name, force=force, inactive=inactive))

    def _stop_channel(self, name: str, *, force: bool, inactive: bool) -> None:
        definition = self.host.find("CHANNEL", name)
        if not isinstance(definition, Channel) or definition.channel_type != "SVRCONN":
            self.channels.stop(name, force=force, inactive=inactive)
            return
        stopped = QueueManagerQuiescing(self.host.settings.name, f"an administrator has stopped channel {name}")
        if not inactive:
            self.admission.stopped.add(name)
        for link in list(self.registry.links):
            if link.session is not None and link.session.identity.channel == name:
                link.close(stopped)

    def _stop_listener(self, name: str) -> None:
        running = self.listeners.pop(name, None)
        if running is None:
            raise ChannelNotAvailable(name, "this listener does not run")
        running.server.close()

    def _stop_connection(self, number: str) -> None:
        session = next((each for own, each in self.registry.sessions.items() if str(own) == number), None)
        link = next((link for link in self.registry.links if link.session is session), None)
        if session is None or link is None:
            raise ObjectNotFound("CONN", number)
        link.close(QueueManagerQuiescing(self.host.settings.name, "an administrator has stopped this connection"))

    def running(self, noun: str) -> list[dict[str, int | float | str]]:
        """The rows of DISPLAY CHSTATUS, LSSTATUS, CONN and PUBSUB; the engine has those of topics."""
        if noun in ("TPSTATUS", "SBSTATUS"):
            return self.host.running(noun)
        rows: list[dict[str, int | float | str]] = self.on_loop(lambda: self._rows(noun))
        return rows

    def _rows(self, noun: str) -> list[dict[str, int | float | str]]:
        if noun == "PUBSUB":
            return self.neighbours.status()
        if noun == "LSSTATUS":
            return [listener.status() for listener in self.listeners.values()]
        if noun == "CONN":
            return [_connection_row(number, session) for number, session in self.registry.sessions.items()]
        clients = [
            _client_row(session)
            for session in self.registry.sessions.values()
            if session.identity.channel and session.protocol != "CHANNEL"
        ]
        return self.channels.status() + clients

    def _managed(self, session: Session, what: str, arguments: dict[str, Any]) -> Any:
        """What the command line asks; in the office's thread."""
        name = self.host.settings.name
        if what == "backup" and session.identity.address != "unix":
            raise NotAuthorized(session.identity.user, name, "backup to files of this machine")
        if what in ("checkpoint", "backup"):
            self.commanded(session.identity, what.upper(), "QMGR", name)
        elif what in ("resolve", "forget"):
            transaction_id = checks.transaction_id(arguments.get("transaction_id"))
            self.commanded(session.identity, what.upper(), "UNIT", transaction_id.hex())
        elif what == "stop":
            return self._stop_for(session, immediate=bool(arguments.get("immediate")))
        answer = manage(self.host, self.registry.supervised(session), what, arguments)
        if what == "status":
            answer |= {"connections": len(self.registry.sessions), "pid": os.getpid()}
        return answer

    def _stop_for(self, session: Session, *, immediate: bool) -> dict[str, Any]:
        name = self.host.settings.name
        waited_for = [] if immediate else self.on_loop(lambda: self._busy(session))
        # Not refused when it cannot be written down: a full disk must not keep anybody from a clean stop.
        self._audited("command", **_who(session.identity), object=f"STOP QMGR {name}")
        self.registry.loop.call_soon_threadsafe(
            lambda: self.registry.loop.call_later(_FAREWELL_S, lambda: self._stop_soon(immediate=immediate))
        )
        return {"name": name, "waits_for": waited_for, "patience_s": _PATIENCE_S}

    def _busy(self, asking: Session) -> list[str]:
        """Whom a stop has to wait for: those in the middle of a unit of work."""
        return [
            f"connection {number} ({session.application or session.protocol}, user {session.identity.user})"
            for number, session in self.registry.sessions.items()
            if session is not asking and session.is_busy
        ]

    def _stop_soon(self, *, immediate: bool) -> None:
        self.registry.loop.create_task(self.stop(immediate=immediate))  # the server outlives it

    # --- stop -----------------------------------------------------------------------------------

    async def stopped(self) -> None:
        """Return when the server has stopped, whoever asked for it."""
        await self._stopped.wait()

    async def stop(self, *, immediate: bool = False, hasten: bool = False, patience_s: float = _PATIENCE_S) -> None:
        """Let nobody in any more and stop.

        Partners are told and may end their open units of work within
        `patience_s`; what is still open then, or with `immediate` at once, is
        backed out. `hasten` lets a stop that is under way wait no longer.
        """
        if self._stopping:
            self._hastened = self._hastened or hasten
            await self._stopped.wait()
            return
        self._stopping = True
        try:
            await self._end_connections(immediate, patience_s)
            # Before the folder is let go: whoever starts next has an audit log and a socket of these names.
            self._close_audit("immediate" if immediate else "quiesced")
            with contextlib.suppress(OSError):
                (self.path / SOCKET).unlink()
            await asyncio.to_thread(self.host.close)
        except EntrepotError as error:
            # What was acknowledged is in the log. The process ends all the same: one that stayed would serve nobody.
            self.failed = True
            _LOGGER.error("%s: it could not stop in good order: %s", self.host.settings.name, error)
        finally:
            self._stopped.set()

    async def _end_connections(self, immediate: bool, patience_s: float) -> None:
        if self._care is not None:
            self._care.cancel()
        self._tell_of_those_turned_away()
        await self._close_listeners()
        self.neighbours.close()
        await self.channels.close()
        await self._dialler.close()
        if not immediate and self.host.failure is None:
            await self._quiesce(patience_s)
        stopped = self.host.failure or QueueManagerStopped(self.host.settings.name)
        self.registry.stopping = True
        for link in list(self.registry.links):
            link.close(stopped)
        # One turn for the farewell to be written, and for the sessions to back out.
        await asyncio.sleep(0)
        deadline = self.registry.loop.time() + 1.0
        while self.registry.links and self.registry.loop.time() < deadline:
            await asyncio.sleep(0.01)
        for session in list(self.registry.sessions.values()):
            session.close()
        await asyncio.to_thread(self.registry.close)
        await asyncio.to_thread(self._resources.close)

    def _close_audit(self, reason: str) -> None:
        try:
            self._audited("stopped", reason=reason)
            self.audit.close()
        except EntrepotError as error:
            _LOGGER.error("%s: %s", self.host.settings.name, error)

    async def _close_listeners(self) -> None:
        if self._unix is not None:
            self._unix.close()
        for running in self.listeners.values():
            running.server.close()
        self.listeners.clear()

    async def _quiesce(self, patience_s: float) -> None:
        """End every connection as soon as it has nothing open."""
        deadline = self.registry.loop.time() + patience_s
        quiescing = QueueManagerQuiescing(self.host.settings.name, "it stops")
        while True:
            for link in list(self.registry.links):
                if link.session is None or not link.session.is_busy:
                    link.close(quiescing)
            if not self.registry.links or self.registry.loop.time() >= deadline or self._hastened:
                return
            await asyncio.sleep(0.02)


def _who(identity: Identity) -> AuditFields:
    return {"user": identity.user, "address": identity.address, "channel": identity.channel}


def _connection_row(number: int, session: Session) -> dict[str, int | float | str]:
    identity = session.identity
    return {
        "CONN": str(number),
        "CHANNEL": identity.channel,
        "CONNAME": identity.address,
        "USERID": identity.user,
        "APPLTAG": session.application,
        "UOWSTATE": session.state,
        "PROTOCOL": session.protocol,
    }


def _client_row(session: Session) -> dict[str, int | float | str]:
    identity = session.identity
    return {
        "CHANNEL": identity.channel,
        "CHLTYPE": "SVRCONN",
        "STATUS": "RUNNING",
        "CONNAME": identity.address,
        "MCAUSER": identity.user,
        "RAPPLTAG": session.application,
    }
