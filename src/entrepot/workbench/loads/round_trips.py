# SPDX-License-Identifier: Apache-2.0
"""Round trips: driving applications put a request and wait for its reply (the WebSphere MQ report's scenarios).

Closed loop. Without a rate each application sends its next request as soon
as it has the reply; with `rate_per_app_hour` at the moments of its own
schedule, or as soon as the reply is there when it comes late. The response
time of a rated application counts from the moment at which the request was
meant to be sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from entrepot.errors import GeneratorFailed
from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.generators.gate import sleep_until
from entrepot.workbench.loads.load import Load
from entrepot.workbench.measuring.stage import Stage
from entrepot.workbench.systems.system import REPLY_S

REQUESTS = "BENCH.REQUESTS"
WARM_UP_TRIPS = 2
"""Before the gate: connections, reply queues and caches exist when the count begins."""


class RoundTrip(Load):
    name = "round-trip"
    needs = frozenset({"requests"})
    parameters = {
        "message_bytes": 2048,
        "apps": 1,
        "workers": 5,
        "rate_per_app_hour": 0,
        "channel_pairs": 1,
        "binding": "",
        "test": "",
    }

    def run(self, stage: Stage) -> None:
        apps, rate_per_app_hour = stage.number("apps"), stage.number("rate_per_app_hour")
        stage.system.create_queues([REQUESTS])
        offered = apps * rate_per_app_hour / 3600 if rate_per_app_hour else None
        with stage.trial(queues=[REQUESTS], offered_per_s=offered) as trial:
            trial.start("replier", reply, stage.number("workers"))
            # Only then the drivers, whose first requests would find no replier otherwise.
            trial.gather()
            trial.start("driver", drive, apps, stage.number("message_bytes"), apps, rate_per_app_hour)
            trial.gather()
            trial.go(stage.seconds)
            trial.applications.join("driver", timeout_s=REPLY_S + 30)


def reply(client: Client) -> None:
    client.system.replier(REQUESTS).serve(client.gate.arrive)


def drive(client: Client, message_bytes: int, apps: int, rate_per_app_hour: int) -> None:
    requester, tail, clock = client.system.requester(REQUESTS, client.number), padding(message_bytes), time.monotonic_ns
    sent, received, me, gate, size = client.sent.add, client.received.add, client.number, client.gate, message_bytes
    for number in range(WARM_UP_TRIPS):
        if requester.request(header(me, number) + tail, REPLY_S) is None:
            raise GeneratorFailed("driver", "a reply of the warm-up never came")
    begun = gate.wait()
    due = _due(begun, client.number / max(apps, 1), rate_per_app_hour)
    number = WARM_UP_TRIPS
    while True:
        intended = next(due)
        if intended >= gate.ended_ns:
            break
        if intended:
            sleep_until(intended)
        body = header(me, number) + tail
        before = clock()
        if before >= gate.ended_ns:
            break
        answer = requester.request(body, REPLY_S)
        after = clock()
        sent((me, number, size, intended or before, before, after))
        if answer is not None:
            if bytes(answer) != body:
                raise GeneratorFailed("driver", f"the reply to request {number} has other bytes")
            received((me, me, number, after, after))
        number += 1
        client.count(number - WARM_UP_TRIPS)
    requester.close()


def _due(begun_ns: int, phase: float, rate_per_app_hour: int) -> Iterator[int]:
    """When each request is meant to be sent; 0 is at once. Applications start spread over one interval."""
    if not rate_per_app_hour:
        while True:
            yield 0
    interval_ns = 3600e9 / rate_per_app_hour
    index = 0
    while True:
        yield int(begun_ns + (index + phase) * interval_ns)
        index += 1
