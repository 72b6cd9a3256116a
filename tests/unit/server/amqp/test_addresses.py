# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.errors import InvalidName, InvalidTopic
from entrepot.server.amqp.addresses import AmqpAddress, kind_of, parse_address, parse_source, parse_target
from folding import for_each


@pytest.mark.parametrize(
    "text",
    [
        "ORDERS",
        "queue://ORDERS",
        "/queue/ORDERS",
        "queue:ORDERS",
        "amqps://localhost:5671/ORDERS",
        "amqp://user@host/ORDERS",
        "amqp://[::1]:5672/queue/ORDERS",
    ],
)
def test_forms_of_a_queue(text: str) -> None:
    assert parse_target(text) == parse_source(text) == AmqpAddress("queue", "ORDERS")
    assert parse_target(text).route == "ORDERS"


def test_queue_of_another_manager() -> None:
    assert parse_target("queue://ORDERS@QM2") == AmqpAddress("queue", "ORDERS", "QM2")
    assert parse_target("ORDERS@QM2").route == "ORDERS@QM2"


@pytest.mark.parametrize(
    "text",
    [
        "topic://prices/ibm",
        "/topic/prices/ibm",
        "topic:prices/ibm",
        "amqps://host/topic/prices/ibm",
    ],
)
def test_forms_of_a_topic(text: str) -> None:
    assert parse_target(text) == parse_source(text) == AmqpAddress("topic", "prices/ibm")
    assert parse_target(text).route == "topic:prices/ibm"
    assert kind_of(text) == "topic"


def test_plain_address_is_what_the_capability_says() -> None:
    assert parse_target("prices/ibm", "topic") == AmqpAddress("topic", "prices/ibm")
    assert parse_target("prices/ibm") == AmqpAddress("queue", "prices/ibm")
    assert (kind_of("prices/ibm", "topic"), kind_of("prices/ibm")) == ("topic", "queue")


def test_prefix_counts_more_than_the_capability() -> None:
    assert parse_target("queue://ORDERS", "topic") == AmqpAddress("queue", "ORDERS")
    assert parse_target("topic://a@b", "topic") == AmqpAddress("topic", "a@b")


def test_empty_levels_stay() -> None:
    assert parse_target("topic:///a//b/").route == "topic:/a//b/"
    assert parse_target("topic:/a").name == "/a"


@pytest.mark.parametrize("pattern", ["prices/+", "prices/#", "#", "+/ibm"])
def test_wildcards_are_for_those_who_receive(pattern: str) -> None:
    assert parse_source(f"topic://{pattern}") == AmqpAddress("topic", pattern)
    with pytest.raises(InvalidTopic, match="wildcard"):
        parse_target(f"topic://{pattern}")


@pytest.mark.parametrize("text", ["topic://", "topic:", "/topic/", "topic://a\x01b", "topic://" + "a/" * 200])
def test_what_cannot_be_a_topic(text: str) -> None:
    for parse in (parse_target, parse_source):
        with pytest.raises(InvalidTopic):
            parse(text)
    assert parse_address(text).kind == "topic"  # a reply-to is kept, whatever it is


@for_each("text", ["", "queue://", "A B", "A" * 49, "amqp://host/", "amqp://host", "http://host/q", "A@", "A@B@C", "Ä"])
def test_what_cannot_be_a_name(text: str) -> None:
    for parse in (parse_target, parse_source):
        with pytest.raises(InvalidName):
            parse(text)
