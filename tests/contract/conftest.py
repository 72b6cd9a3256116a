# SPDX-License-Identifier: Apache-2.0
"""The same contract by every binding."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Place

from entrepot.connection import Connection, connect
from entrepot.security.users import Users
from entrepot.testing.servers import ServerThread


@pytest.fixture(params=["embedded", "unix", "tcp"])
def connection(request: pytest.FixtureRequest, place: Place) -> Iterator[Connection]:
    """A connection by every binding there is, to a queue manager with a queue Q."""
    if request.param == "embedded":
        connection = place.open()
        connection.mqsc("DEFINE QLOCAL(Q)")
        yield connection
        return
    if request.param == "tcp":
        open_to_tester(place)
    with ServerThread(place.path) as server:
        url = server.unix_url if request.param == "unix" else f"mq://127.0.0.1:{server.port('TCP')}/QM1"
        with connect(url, application="tests", user="tester" * (request.param == "tcp"), password=PASSWORD) as found:
            found.mqsc("DEFINE QLOCAL(Q)")
            yield found


PASSWORD = "a password for tests"


def open_to_tester(place: Place) -> None:
    """Let an administrator `tester` in by TCP, which no queue manager does by itself."""
    with place.open() as connection:
        connection.mqsc("DEFINE LISTENER(TCP) PORT(0)\nALTER QMGR CHLAUTH(DISABLED)")
    place.close()
    users = Users.load(place.path)
    users.add("tester", PASSWORD, ["mqm"])
    users.save()
