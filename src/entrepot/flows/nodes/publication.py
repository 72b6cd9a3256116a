# SPDX-License-Identifier: Apache-2.0
"""Publication: publishes a message to all subscribers of its topic.

The topic is what the message says: Properties.Topic, or psc.Topic of its
MQRFH2; several of them are published one by one. A node may name a topic for
messages that say none. Which subscribers get it, by topic and by content, is for the
queue manager.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from entrepot.errors import DestinationMissing
from entrepot.flows.flow_world import TOPIC, Output
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.node import Node, Property
from entrepot.models import render_message
from entrepot.models.tree import Assembly, Element

_RETAIN = "RetainPub"


class Publication(Node):
    type: ClassVar[str] = "Publication"
    about: ClassVar[str] = "Publishes the message on its topic."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmPublication", "ComIbmPSService")
    properties: ClassVar[tuple[Property, ...]] = (
        Property("topic", "text", "", about="for messages that name none"),
        Property("retain", "flag", False, about="keep it for subscribers to come"),
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        topics, retain = _topics_and_retain(assembly)
        topics = topics or ([self.settings["topic"]] if self.settings["topic"] else [])
        if not topics:
            raise DestinationMissing(
                self.plan.flow.name,
                self.name,
                "neither Properties.Topic nor MQRFH2.psc.Topic nor the node names a topic",
            )
        message = render_message(assembly.root)
        message = replace(message, retained=retain or self.settings["retain"], backout_count=0)
        for topic in topics:
            journey.put(Output(TOPIC + topic, message, self.name))
        self.propagate("out", assembly, journey)


def _topics_and_retain(assembly: Assembly) -> tuple[list[str], bool]:
    """The topics that a message names, and whether it wants to be kept."""
    root = assembly.root
    properties = root.first("Properties")
    topics = [] if properties is None else _values(properties, "Topic")
    retain = False
    header = root.first("MQRFH2")
    command = None if header is None else header.first("psc")
    if command is not None:
        topics = _values(command, "Topic") or topics
        retain = any(_RETAIN in option for option in _values(command, "RegOpt") + _values(command, "PubOpt"))
    return topics, retain


def _values(folder: Element, name: str) -> list[str]:
    found = []
    for child in folder.all(name):
        # Properties.Topic is a list whose items are its children.
        values = [item.value for item in child.children] if child.children else [child.value]
        found += [str(value).strip() for value in values if value]
    return found
