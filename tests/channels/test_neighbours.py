# SPDX-License-Identifier: Apache-2.0
"""Publications between queue managers: proxy subscriptions over real channels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot import Connection, connect
from entrepot.engine.definitions import CHILDREN
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.testing.servers import ServerThread

LOG = LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=8)


def _link(here: Path, there: Path) -> None:
    """Objects for messages from one queue manager to another."""
    with connect(f"embedded:{here}") as connection:
        connection.mqsc(
            f"""
            DEFINE QLOCAL({there.name}) USAGE(XMITQ) MAXDEPTH(100000) MAXMSGL(104857600) +
                   TRIGGER TRIGTYPE(FIRST) INITQ(SYSTEM.CHANNEL.INITQ) TRIGDATA({here.name}.{there.name})
            DEFINE CHANNEL({here.name}.{there.name}) CHLTYPE(SDR) CONNAME('unix:{there}') XMITQ({there.name})
            """
        )
    with connect(f"embedded:{there}") as connection:
        connection.mqsc(
            f"""
            DEFINE CHANNEL({here.name}.{there.name}) CHLTYPE(RCVR) MCAUSER('mover')
            SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('mover') AUTHADD(CONNECT)
            SET AUTHREC PROFILE('SYSTEM.INTER.QMGR.**') OBJTYPE(QUEUE) PRINCIPAL('mover') AUTHADD(PUT)
            """
        )


@pytest.fixture
def chain(parent: Path) -> Path:
    """Three stopped queue managers: HQ is the parent of EAST and WEST."""
    for name in ("HQ", "EAST", "WEST"):
        create(parent / name, log=LOG)
    for branch in ("EAST", "WEST"):
        _link(parent / "HQ", parent / branch)
        _link(parent / branch, parent / "HQ")
        with connect(f"embedded:{parent / branch}") as connection:
            connection.mqsc("ALTER QMGR PARENT(HQ)")
    return parent


@pytest.fixture
def servers(chain: Path) -> Iterator[dict[str, Connection]]:
    with ServerThread(chain / "HQ"), ServerThread(chain / "EAST"), ServerThread(chain / "WEST"):
        connections = {name: connect(f"unix:{chain / name}") for name in ("HQ", "EAST", "WEST")}
        yield connections
        for connection in connections.values():
            connection.close()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def _proxies(connection: Connection) -> set[str]:
    """What others want from a queue manager."""
    rows = [row for answer in connection.mqsc("DISPLAY SBSTATUS(*)") for row in answer.rows]
    return {str(row["TOPICSTR"]) for row in rows if row["SUBTYPE"] == "PROXY"}


def test_a_publication_reaches_subscribers_of_other_queue_managers_once(servers: dict[str, Connection]) -> None:
    east = servers["EAST"].subscribe("prices/#", durable="registry")
    west = servers["WEST"].subscribe("prices/+")
    _until(lambda: "prices/#" in _proxies(servers["WEST"]) and "prices/+" in _proxies(servers["EAST"]))
    for name, connection in servers.items():
        connection.publish("prices/ibm", name.encode(), persistent=True)
        connection.publish("weather/oslo", name.encode(), persistent=True)
    for subscription in (east, west):
        got = [subscription.get(wait_s=60) for _ in range(3)]
        assert {message.body for message in got if message} == {b"HQ", b"EAST", b"WEST"}
        assert subscription.get(wait_s=0.3) is None
        assert all(message and message.topic == "prices/ibm" and not message.properties for message in got)


def test_publications_wait_for_a_queue_manager_that_is_away(chain: Path) -> None:
    with ServerThread(chain / "HQ"), connect(f"unix:{chain / 'HQ'}") as hq:
        with ServerThread(chain / "EAST"), connect(f"unix:{chain / 'EAST'}") as east:
            east.subscribe("prices/#", durable="registry").close()
            _until(lambda: "prices/#" in _proxies(hq))
        for number in range(20):
            hq.publish("prices/ibm", b"%d" % number, persistent=True)
        with ServerThread(chain / "EAST"), connect(f"unix:{chain / 'EAST'}") as east:
            registry = east.subscribe(durable="registry")
            got = [registry.get(wait_s=60) for _ in range(20)]
            assert [message.body for message in got if message] == [b"%d" % number for number in range(20)]


def test_what_nobody_wants_any_more_is_not_sent(servers: dict[str, Connection]) -> None:
    east = servers["EAST"].subscribe("prices/#")
    _until(lambda: "prices/#" in _proxies(servers["WEST"]))
    east.close()
    _until(lambda: not _proxies(servers["WEST"]) and not _proxies(servers["HQ"]))


def test_what_was_retained_comes_to_the_first_who_asks(servers: dict[str, Connection]) -> None:
    servers["HQ"].publish("prices/ibm", b"100", retain=True, persistent=True)
    east = servers["EAST"].subscribe("prices/ibm")
    kept = east.get(wait_s=60)
    assert kept is not None and kept.body == b"100" and kept.retained
    servers["HQ"].publish("prices/ibm", b"101", retain=True, persistent=True)
    news = east.get(wait_s=60)
    assert news is not None and news.body == b"101" and not news.retained
    again = servers["EAST"].subscribe("prices/#").get(wait_s=60)
    assert again is not None and again.body == b"101" and again.retained


def test_scope_keeps_publications_at_home(servers: dict[str, Connection]) -> None:
    servers["HQ"].mqsc("DEFINE TOPIC(HOME) TOPICSTR('home') PUBSCOPE(QMGR)")
    east = servers["EAST"].subscribe("#")
    _until(lambda: "#" in _proxies(servers["HQ"]))
    servers["HQ"].publish("home/secret", b"no", persistent=True)
    servers["HQ"].publish("abroad", b"yes", persistent=True)
    got = east.get(wait_s=60)
    assert got is not None and got.body == b"yes"


def test_leaving_a_parent_ends_its_wishes(servers: dict[str, Connection]) -> None:
    servers["EAST"].subscribe("prices/#", durable="registry")
    _until(lambda: "prices/#" in _proxies(servers["HQ"]))
    servers["EAST"].mqsc("ALTER QMGR PARENT(' ')")
    _until(lambda: not _proxies(servers["HQ"]))

    def children() -> set[object]:
        rows = [row for answer in servers["HQ"].mqsc("DISPLAY PUBSUB") for row in answer.rows]
        return {row["QMNAME"] for row in rows if row["TYPE"] == "CHILD"}

    _until(lambda: children() == {"WEST"})


def test_two_children_that_come_at_once_are_both_remembered(tmp_path: Path) -> None:
    """The definition with the first is not on disk yet when the second comes."""
    create(tmp_path / "HQ", log=LOG)
    with ServerThread(tmp_path / "HQ") as running:
        assert running.server is not None
        neighbours = running.server.neighbours

        async def come() -> None:
            with neighbours._registry.host.lock:
                neighbours._adopt("EAST")
                neighbours._adopt("WEST")

        running.run(come())
    with connect(f"embedded:{tmp_path / 'HQ'}") as connection:
        assert connection.calls.line._host._manager.objects.name_lists[CHILDREN].names == ("EAST", "WEST")
