# SPDX-License-Identifier: Apache-2.0
"""ActiveMQ Classic with stomp.py: a reply queue for each requester, and units of work by BEGIN and COMMIT.

STOMP can select by correlation id only with a subscription per request, so
each requester subscribes to a queue of its own. Depths come from the
broker's own statistics plugin, which answers a message with a message; the
answer is a map, and to write a map in STOMP the broker needs XStream.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import activemq_clients as clients
from entrepot.workbench.systems.processes import LOOPBACK, ServerProcess
from entrepot.workbench.systems.single_server import SingleServer, package_version
from entrepot.workbench.systems.system import Replier, Requester, SystemReceiver, SystemSender

_HOME = "/usr/share/activemq"
_XSTREAM = Path("/usr/share/java/xstream.jar")
_STATISTICS = "<plugins><statisticsBrokerPlugin/></plugins>"
# By default a queue spills to a file and never fills its memory, so that no sender would ever be held up.
_LIMIT = """<destinationPolicy><policyMap><policyEntries>
      <policyEntry queue=">" memoryLimit="{bytes}" producerFlowControl="true">
        <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>
      </policyEntry>
    </policyEntries></policyMap></destinationPolicy>"""
_BROKER = """<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="workbench" dataDirectory="{folder}/data"
      useJmx="false" advisorySupport="false">
    {limit}
    <persistenceAdapter><kahaDB directory="{folder}/data/kahadb"/></persistenceAdapter>
    {plugins}
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://{host}:{port}?transport.tcpNoDelay=true"/>
    </transportConnectors>
  </broker>
</beans>
"""
_LOGGING = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m%n
"""


class ActiveMq(SingleServer):
    name = "activemq"
    title = "ActiveMQ, stomp.py"
    commands = ("java", "/usr/bin/activemq")
    packages = ("activemq", "libxstream-java")
    modules = ("stomp",)
    abilities = frozenset({"queues", "requests", "topics", "sessions"})
    contracts = {
        Quality.EXPRESS: "memory, spilt to a file when full; no receipts; receivers acknowledge up to 250 at once",
        Quality.RECOVERABLE: (
            "fsync of the journal before each message's receipt (seen in that order), shared by those that wait; may be"
            " delivered before it; acknowledgements are neither waited for nor forced, so a crash repeats messages"
        ),
        Quality.TRANSACTIONAL: (
            "STOMP's BEGIN and COMMIT: fsync of the journal before the receipt of a commit, of what was sent in it and"
            " of what was acknowledged"
        ),
    }
    answered_contract = (
        "memory, spilt to a file when full; each message's receipt is waited for; receivers acknowledge up to 250 at"
        " once"
    )
    # The JVM compiles what is hot: after 4 s of load a round trip cost it 870 µs of CPU, after 20 s 290 µs.
    warm_up_s = 12.0
    start_s = 4.0

    _watch: clients.StompWatch | None = None

    def start(self) -> None:
        super().start()
        if self._has_statistics:
            self._watch = clients.StompWatch(self._port)

    def _launch(self) -> ServerProcess:
        return ServerProcess(self._command(), self.folder / "output.log", name=self.name)

    @property
    def _has_statistics(self) -> bool:
        return _XSTREAM.exists()

    def _command(self) -> list[str]:
        libraries = self.folder / "lib"
        for folder in (self.folder / "tmp", libraries):
            folder.mkdir(parents=True, exist_ok=True)
        if self._has_statistics and not (libraries / _XSTREAM.name).exists():
            (libraries / _XSTREAM.name).symlink_to(_XSTREAM)
        broker = self.folder / "activemq.xml"
        broker.write_text(
            _BROKER.format(
                folder=self.folder,
                host=LOOPBACK,
                port=self._port,
                limit=_LIMIT.format(bytes=self._limit_bytes) if self._limit_bytes else "",
                plugins=_STATISTICS if self._has_statistics else "",
            )
        )
        (self.folder / "log4j.properties").write_text(_LOGGING)
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
        return [*command, "-jar", f"{_HOME}/bin/activemq.jar", "start", f"xbean:file:{broker}"]

    def stop(self) -> None:
        super().stop()
        self._watch = None

    def version(self) -> str:
        return f"ActiveMQ {package_version('activemq')}; stomp.py {metadata.version('stomp.py')}"

    def settings(self) -> dict[str, str]:
        settings = {
            "heap": "512 MB, as Debian sets it",
            "advisorySupport": "false",
            "TCP_NODELAY": "set on both sides; stomp.py does not by itself, and would wait 40 ms at times",
            "prefetch": f"{clients.PREFETCH} of a receiver, {clients.PREFETCH_REPLIER} of a replier",
            "reply queue": "one per requester",
            "depth": "statisticsBrokerPlugin: messages that are not acknowledged"
            if self._has_statistics
            else "not known: package libxstream-java is not installed",
        }
        if self._limit_bytes:
            settings["queue limit"] = (
                f"memoryLimit {self._limit_bytes}, of which a message takes its body and about 1,024 bytes;"
                " producerFlowControl holds the senders up; pending messages are kept in memory"
            )
        return settings

    @property
    def _limit_bytes(self) -> int:
        return int(self.options.get("queue_limit_bytes") or 0)

    def create_queues(self, names: Sequence[str]) -> None:
        """A queue exists as soon as a client subscribes, and any subscriber can empty it."""
        for name in names:
            receiver = clients.StompReceiver(self._connection(), Quality.EXPRESS, f"/queue/{name}")
            while receiver.receive(clients.SILENCE_S):
                pass
            receiver.close()

    def depth(self, queue: str) -> int | None:
        return None if self._watch is None else self._watch.depth(queue)

    def _connection(self, client_id: str = "") -> clients.StompConnection:
        return clients.StompConnection(self._port, client_id)

    def sender(self, queue: str) -> SystemSender:
        return clients.StompSender(self._connection(), self.quality, f"/queue/{queue}", receipts=self.is_answered)

    def receiver(self, queue: str) -> SystemReceiver:
        return clients.StompReceiver(self._connection(), self.quality, f"/queue/{queue}")

    def requester(self, requests: str, number: int) -> Requester:
        return clients.StompRequester(
            self._connection(), self.quality, f"/queue/{requests}", f"/queue/{requests}.REPLIES.{number}"
        )

    def replier(self, requests: str) -> Replier:
        return clients.StompReplier(self._connection(), self.quality, f"/queue/{requests}")

    def publisher(self, topic: str) -> SystemSender:
        return clients.StompSender(self._connection(), self.quality, f"/topic/{topic}", receipts=self.is_answered)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        name = f"{topic}-{number}" if self.quality.is_persistent else ""
        return clients.StompReceiver(self._connection(name), self.quality, f"/topic/{topic}", durable=name)
