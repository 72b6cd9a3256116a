# SPDX-License-Identifier: Apache-2.0
"""Short sessions: connect, five round trips, disconnect, again and again (table 15).

Rated closed loop: an application begins a session at the moments of its own
schedule, one for each five requests that its rate allows, or as soon as its
last one has ended when that was late. A session counts from the moment at
which it was meant to begin; its round trips follow each other without a
pause and count by themselves.
"""

from __future__ import annotations

import time

from entrepot.errors import GeneratorFailed
from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.generators.gate import sleep_until
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.round_trips import REQUESTS, reply
from entrepot.workbench.measuring.observations import CALL_NAMES
from entrepot.workbench.measuring.stage import Stage
from entrepot.workbench.systems.system import REPLY_S

SESSION_TRIPS = 5
_SESSION = CALL_NAMES.index("session")


class Sessions(Load):
    name = "sessions"
    needs = frozenset({"requests", "sessions"})
    parameters = {
        "message_bytes": 2048,
        "apps": 1,
        "workers": 5,
        "rate_per_app_hour": 3600,
        "seconds_factor": 2,
        "binding": "",
        "test": "",
    }

    def run(self, stage: Stage) -> None:
        apps, rate_per_app_hour = stage.number("apps"), stage.number("rate_per_app_hour")
        stage.system.create_queues([REQUESTS])
        with stage.trial(queues=[REQUESTS], offered_per_s=apps * rate_per_app_hour / 3600) as trial:
            trial.start("replier", reply, stage.number("workers"))
            trial.gather()
            trial.start("driver", drive, apps, stage.number("message_bytes"), apps, rate_per_app_hour)
            trial.gather()
            trial.go(stage.seconds)
            trial.applications.join("driver", timeout_s=SESSION_TRIPS * REPLY_S + 30)


def drive(client: Client, message_bytes: int, apps: int, rate_per_app_hour: int) -> None:
    """Sessions until the gate closes."""
    tail, clock, gate, note = padding(message_bytes), time.monotonic_ns, client.gate, client.calls.add
    interval_ns = SESSION_TRIPS * 3600e9 / rate_per_app_hour
    begun = gate.wait()
    index, number = 0, 0
    while (intended := int(begun + (index + client.number / apps) * interval_ns)) < gate.ended_ns:
        sleep_until(intended)
        if clock() >= gate.ended_ns:
            break
        number = _session(client, number, tail)
        note((client.number, _SESSION, message_bytes, intended, clock()))
        client.count(number)
        index += 1


def _session(client: Client, first: int, tail: bytes) -> int:
    """One of them; returns the number that the next request has."""
    sent, received, clock, me = client.sent.add, client.received.add, time.monotonic_ns, client.number
    requester = client.system.requester(REQUESTS, me)
    for number in range(first, first + SESSION_TRIPS):
        body = header(me, number) + tail
        before = clock()
        answer = requester.request(body, REPLY_S)
        after = clock()
        sent((me, number, len(body), before, before, after))
        if answer is not None:
            if bytes(answer) != body:
                raise GeneratorFailed("driver", f"the reply to request {number} has other bytes")
            received((me, me, number, after, after))
    requester.close()
    return first + SESSION_TRIPS
