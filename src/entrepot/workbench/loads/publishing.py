# SPDX-License-Identifier: Apache-2.0
"""Publish: publishers and subscribers on one topic, or on one each (SonicMQ's publish/subscribe tests).

`topics` is how many topics there are: 1 for one-to-many and many-to-many,
as many as publishers for one-to-one pairs. Every subscriber has to get
every publication of its topic. Publishers pause while WINDOW deliveries are
under way, so that none is judged by how it bears a backlog.
"""

from __future__ import annotations

import time

from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.receiving import take
from entrepot.workbench.loads.window import PAUSE_S, Window
from entrepot.workbench.measuring.stage import Stage

WINDOW = 20_000


class Publish(Load):
    name = "publish"
    needs = frozenset({"topics"})
    pipelines = True
    parameters = {"message_bytes": 1000, "senders": 1, "receivers": 1, "topics": 1, "batch": 1, "seconds_factor": 1}

    def run(self, stage: Stage) -> None:
        senders, receivers, topics, batch = (stage.number(name) for name in ("senders", "receivers", "topics", "batch"))
        names = [topic_name(number) for number in range(topics)]
        stage.system.create_topics(names)
        with stage.trial() as trial:
            # How many deliveries each publication of a topic makes.
            fans = [len(range(number, receivers, topics)) for number in range(topics)]
            trial.facts["copies"] = receivers / topics
            trial.start("subscriber", subscribe, receivers, topics)
            trial.gather()
            trial.start(
                "publisher", publish, senders, stage.number("message_bytes"), topics, batch, receivers, senders, fans
            )
            trial.gather()
            trial.go(stage.seconds)
            trial.applications.join("publisher")
            trial.drain(lambda: trial.counted("subscriber") >= trial.counted("publisher"))


def topic_name(number: int) -> str:
    return f"bench/topic{number}"


def subscribe(client: Client, topics: int) -> None:
    receiver = client.system.subscriber(topic_name(client.number % topics), client.number)
    client.gate.arrive()
    take(client, receiver, 1)


def publish(
    client: Client, message_bytes: int, topics: int, batch: int, receivers: int, senders: int, fans: list[int]
) -> None:
    """Counts deliveries and not publications, so that they compare with what subscribers count."""
    topic = client.number % topics
    sender, fan = client.system.publisher(topic_name(topic)), fans[topic]
    tail, note, clock = padding(message_bytes), client.sent.add, time.monotonic_ns
    size, me, gate, number = max(message_bytes, 8), client.number, client.gate, 0
    gate.wait()
    under_way = Window(gate, WINDOW, range(receivers, receivers + senders), range(receivers), copies=fan)
    while (ready := clock()) < gate.ended_ns:
        if under_way.is_full(number):
            time.sleep(PAUSE_S)
            continue
        numbers = range(number, number + batch)
        before = clock()
        sender.send([header(me, each) + tail for each in numbers])
        after = clock()
        for each in numbers:
            note((me, each, size, ready, before, after))
        number = numbers.stop
        client.count(number * fan)
    sender.flush()
    sender.close()
