# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from entrepot.client.embedded import EmbeddedHost
from entrepot.engine.definitions import DEAD_LETTER_QUEUE
from entrepot.message import Message, Report
from entrepot.server.served_host import ServedHost
from hosted import Host, Hosted

from .guests import PATIENCE_S


def depths(host: Host, *queues: str) -> list[int]:
    return [int(host.queue_status(queue)["CURDEPTH"]) for queue in queues]


@pytest.mark.parametrize("kind", [ServedHost, EmbeddedHost])
def test_what_expires_right_after_a_restart_is_reported_only_where_its_sender_may_put(
    house_path: Path, kind: type[Any]
) -> None:
    wanted = {"report": Report.EXPIRATION | Report.WITH_DATA, "reply_to": "R", "expiry_s": 0.2}
    first: Any = Hosted(kind(house_path))  # on a slow machine they expire here, and the same holds
    for user in ("ann", "boss"):
        first.put("Q", Message(b"of " + user.encode(), user=user, **wanted), persistent=True)  # type: ignore[arg-type]
    first.close()
    host: Any = Hosted(kind(house_path))
    deadline = time.monotonic() + PATIENCE_S
    while depths(host, "Q") != [0]:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert [message.body for message in host.browse("R", None, None, 9)[0]] == [b"of boss"]
    assert [message.body for message in host.browse(DEAD_LETTER_QUEUE, None, None, 9)[0]] == [b"of ann"]
    host.close()
