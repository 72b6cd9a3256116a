# SPDX-License-Identifier: Apache-2.0
"""Queue managers inside of this process: one for each folder, shared by all connections to it."""

from __future__ import annotations

import getpass
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from entrepot.client.protocol import ClientCore
from entrepot.clock import SystemClock
from entrepot.engine.coordinator import HostCoordinator
from entrepot.engine.databases.watch import ResourceWatch
from entrepot.engine.definitions import require_name
from entrepot.engine.folder import SETTINGS, as_recovery_error, create, read_settings
from entrepot.engine.host import Host
from entrepot.engine.loop_host import LoopHost
from entrepot.engine.memory_disk import MemoryDisk
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.record import FORMAT_VERSION
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import lay_out
from entrepot.engine.settings import ManagerSettings
from entrepot.engine.thread_loop import ThreadHost, TurnLock
from entrepot.errors import EntrepotError, Fenced, InvalidUrl, ProtocolError
from entrepot.limits import MIB
from entrepot.server.conversation import Conversation, ConversationPeer
from entrepot.server.managed import manage
from entrepot.server.security.originators import RecordedOriginators
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity, SessionRegistry
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.frame import VERSION
from entrepot.server.wire.verbs import Closing, Verb, Welcome

_MEMORY_LOG = LogSettings(segment_bytes=4 * MIB, primary=3, secondary=60)
"""A log that nobody will read: the less of it there is at a time, the better."""
_BODY_BYTES_MAX = 2**62
"""There is no channel between us: what a queue takes is for the queue to say."""


class EmbeddedHost(Host):
    """A queue manager inside of this process; its connections have sessions, as those of a server."""

    on_close: Callable[[], None] | None = None
    """What has to end before it does."""

    def __init__(self, path: Path | str, **options: Any) -> None:
        super().__init__(path, **options)
        self.registry = self.desk_on(ThreadHost(self))
        """For connections that any thread may use."""

    @property
    def url(self) -> str:
        return f"embedded:{self.path}"

    def _make_lock(self) -> TurnLock:
        return TurnLock()

    def _restarted(self, manager: QueueManager) -> None:
        # A program that opens a folder has its messages of others, too, and they cause no more here than at a server.
        manager.objects.originators = RecordedOriginators(manager.objects, self.path)

    def desk_on(self, engine: LoopHost) -> SessionRegistry:
        """What sessions need on a loop."""
        registry = SessionRegistry(self, engine=engine)
        registry.managed = lambda _, what, arguments: manage(self, self, what, arguments)
        return registry

    def status(self) -> dict[str, int | float | str]:
        """How the queue manager is doing, and what its start has found."""
        restarted = self.restarted
        return super().status() | {
            "replayed_bytes": restarted.replayed_bytes,
            "replayed_records": restarted.replayed_records,
            "torn": restarted.torn,
        }

    def _wake_served(self) -> None:
        self._lock.call_ready()  # what a force has settled is done before the threads that wait for it are looked at
        super()._wake_served()

    def close(self) -> None:
        if self.on_close is not None:
            self.on_close()
        self.registry.close()
        super().close()
        self.registry.loop.close()


class MemoryHost(EmbeddedHost):
    """A queue manager without a disk: what it keeps goes with the process, or with its last connection."""

    def __init__(self, name: str) -> None:
        disk, clock = MemoryDisk(f"memory:{name}"), SystemClock()
        settings = ManagerSettings(
            name=require_name("queue manager", name or "MEMORY"),
            manager_id=disk.random_bytes(12),
            format_version=FORMAT_VERSION,
            created=clock.now(),
            log=_MEMORY_LOG,
        )
        lay_out(disk, clock, settings)
        super().__init__(Path(f"memory:{name}"), disk=disk, clock=clock, settings=settings)

    @property
    def url(self) -> str:
        return str(self.path)

    def _restarted(self, manager: QueueManager) -> None:
        """Nobody but this process has ever put anything there."""


def share_host(url: str) -> tuple[EmbeddedHost, Callable[[], None]]:
    """The queue manager of an `embedded:` or `memory:` URL, created if there is none, and how to let it go.

    `memory:` alone is a new one for every connection; by `memory:NAME` the connections of a process share one.

    Raises:
        InvalidUrl: Not such a URL.
        InvalidName: A queue manager cannot have this name.
        RecoveryError: It cannot be started; the error says why. Nothing was lost.
    """
    scheme, _, place = url.partition(":") if isinstance(url, str) else ("", "", "")
    if scheme == "memory":
        if not place:
            alone = MemoryHost("")
            return alone, alone.close
        key = Path(url)
    elif scheme == "embedded" and place and "\0" not in place:
        key = Path(place).resolve()
    else:
        raise InvalidUrl(str(url))
    with _hosts_lock:
        host, users = _hosts.get(key, (None, 0))
        if host is None:
            host = MemoryHost(place) if scheme == "memory" else _on_disk(key)
        _hosts[key] = (host, users + 1)
    return host, partial(_leave, host)


def _on_disk(path: Path) -> EmbeddedHost:
    _create_unless_there(path)
    host = EmbeddedHost(path)
    if ResourceWatch.is_wanted(path):
        watch = ResourceWatch(path, HostCoordinator(host))
        host.on_close = watch.close
        watch.start()
    return host


_hosts: dict[Path, tuple[EmbeddedHost, int]] = {}
_hosts_lock = threading.Lock()


def _create_unless_there(path: Path) -> None:
    try:
        if (path / SETTINGS).exists():
            return
        is_new = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    except OSError as error:
        raise as_recovery_error(path, error) from error
    if is_new:
        create(path)
    else:
        read_settings(path)  # says what is wrong, before a lock is left in a folder that is not ours


def _leave(host: EmbeddedHost) -> None:
    with _hosts_lock:
        for path, (shared, users) in list(_hosts.items()):
            if shared is host:
                if users > 1:
                    _hosts[path] = (host, users - 1)
                    return
                del _hosts[path]
                break
    host.close()


def current_user() -> str:
    """Who runs this process; through a channel the server finds that out itself."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a container may run under a number that has no name


class EmbeddedPeer:
    """The client's end of a conversation in this process: what it is told needs no bytes.

    All of it happens in turns of the engine: under the lock, or on the event loop.
    """

    closed = False

    def __init__(self, core: ClientCore, registry: SessionRegistry, application: str) -> None:
        self._core = core
        self._is_held = False
        self._is_sending = False
        identity = Identity(current_user(), address="embedded", administrator=True)
        session = Session(registry, identity, application, "EMBEDDED")
        session.on_unblocked = self._resume
        partner: ConversationPeer = self
        self.conversation = Conversation(partner, session)
        host = registry.host
        core.begin_connection(
            Welcome(
                VERSION,
                host.settings.name,
                session.number,
                0.0,
                _BODY_BYTES_MAX,
                identity.user,
                host.manager.incarnation,
                host.manager.message_id_head(session.number),
            )
        )

    # --- what the client asks -------------------------------------------------------------------

    def ask_all(self) -> None:
        """Let the conversation have what has gathered, in its order."""
        core, conversation = self._core, self.conversation
        if self._is_sending:
            return  # whoever is at it goes on with what has just been added
        self._is_sending = True
        try:
            while core.out and not self._is_held and not self.closed:
                gathered = deque(core.take())
                while gathered and not self._is_held and not self.closed:
                    conversation.handle(*gathered.popleft())
                core.out[:0] = gathered
        except ProtocolError as error:
            self.close(error)
        finally:
            self._is_sending = False

    def _resume(self) -> None:
        self._is_held = False
        self.ask_all()

    # --- what the queue manager says ------------------------------------------------------------

    def send(self, verb: int, number: int, payload: Any) -> None:
        self._core.handle(verb, number, payload)
        if self._core.urgent and not self._is_sending:
            self.conversation.registry.loop.call_soon(self.ask_all)

    send_message = send

    def hold(self) -> None:
        self._is_held = True

    def late(self, verb: int, number: int, payload: Any) -> None:
        try:
            self.conversation.handle(verb, number, payload)
        except ProtocolError as error:
            self.close(error)

    def postpone(self, verb: int, number: int, payload: Any) -> None:
        self.hold()
        self._core.out.insert(0, (verb, number, payload))

    def give_way(self) -> None:
        """Nobody waits for the same loop."""

    def open_outlet(self, stream: Any, numbered: Any) -> None:
        pass  # there are no bytes

    def fence(self, error: Fenced) -> None:
        if not self.conversation.session.closed:
            self.send(Verb.CLOSING, 0, Closing(to_wire(error)))
            self.conversation.session.fence(error)

    def close(self, error: EntrepotError | None = None) -> None:
        """End the session: what is open is backed out, and whoever waits for an answer is told."""
        if self.closed:
            return
        self.closed = True
        if error is not None:
            self._core.farewell = error
        self.conversation.lost()
        self._core.lose("the connection was closed")
