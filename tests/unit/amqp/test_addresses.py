# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.amqp.addresses import Address, parse_address, parse_queue
from entrepot.amqp.conditions import Refusal
from entrepot.errors import InvalidName


@pytest.mark.parametrize("text", ["ORDERS", "queue://ORDERS", "/queue/ORDERS", "queue:ORDERS"])
def test_forms_of_a_queue(text: str) -> None:
    assert parse_queue(text) == Address("queue", "ORDERS")
    assert parse_queue(text).route == "ORDERS"


def test_queue_of_another_manager() -> None:
    assert parse_queue("queue://ORDERS@QM2") == Address("queue", "ORDERS", "QM2")
    assert parse_queue("ORDERS@QM2").route == "ORDERS@QM2"


@pytest.mark.parametrize("text", ["topic://PRICES", "/topic/PRICES", "topic:PRICES"])
def test_topics_are_known_and_refused(text: str) -> None:
    assert parse_address(text) == Address("topic", "PRICES")
    with pytest.raises(Refusal) as caught:
        parse_queue(text)
    assert caught.value.condition == "amqp:not-implemented"


@pytest.mark.parametrize("text", ["", "queue://", "A B", "A" * 49, "amqp://host/q", "A@", "A@B@C", "Ä"])
def test_what_cannot_be_a_name(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_queue(text)
