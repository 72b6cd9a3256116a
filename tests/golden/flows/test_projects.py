# SPDX-License-Identifier: Apache-2.0
"""Projects in IBM's file format, and the same flows written by hand: the same messages come out, byte for byte.

The projects are our own. Each has beside it the YAML that somebody would
write for the same flow, with ESQL conditions where the file has XPath, and our
map notation where the file has a .map.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from entrepot.flows.kernel import Kernel
from entrepot.flows.loading import load_flow
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message, MessageType

PROJECTS = Path(__file__).parent / "projects"
LINE = "<line><price>{}</price><count>{}</count></line>"
SALE = '<sale xmlns="urn:example:sales"><number>{}</number>{}</sale>'
BUYER = "<buyer><first>Ada</first><last>Byron</last><country>{}</country></buyer>"


@dataclass(frozen=True)
class Case:
    msgflow: str
    yaml: str
    queue: str
    bodies: tuple[str, ...]
    queues: dict[str, list[str]]
    """What has to come out, and where: worked out by hand."""
    options: dict[str, Any]


def _order(number: int, content: str, attributes: str = "") -> str:
    return f"<order{attributes}><number>{number}</number>{content}</order>"


def _priced(number: int, content: str, total: str, attributes: str = "") -> str:
    return _order(number, f"{content}<region>EMEA</region><total>{total}</total>", attributes)


CHEAP, DEAR = LINE.format(10, 2), LINE.format(1500, 1)
WAYS = LINE.format(1, 1) + "<ways><way>sea</way><way>air</way></ways>"
NO_WAY = LINE.format(1, 1) + "<ways><way>moon</way></ways>"
ITEMS = '<item sku="x1"><count>2</count></item><item sku="x2"><count>0</count></item>'
INVOICE = (
    '<invoice currency="EUR"><number>{}</number><customer>Ada Byron</customer><country>{}</country><positions>'
    "<position><article>x1</article><quantity>2</quantity></position></positions><tax>{}</tax></invoice>"
)

CASES = {
    "orders": Case(
        "Shop/shop/Orders.msgflow",
        "shop_orders.yaml",
        "SHOP.ORDERS",
        (
            _order(1, CHEAP),
            _order(2, CHEAP + DEAR),
            _order(3, DEAR, ' test="yes"'),
            _order(4, WAYS),
            _order(5, NO_WAY),
            _order(6, LINE.format("many", 1)),
            "<order><number>7",
        ),
        {
            "SHOP.STANDARD": [_priced(1, CHEAP, "19"), _priced(3, DEAR, "1425", ' test="yes"')],
            "SHOP.AUDIT": ['<note level="7"><number>2</number></note>'],
            "SHOP.GOLD": [_priced(2, CHEAP + DEAR, "1444")],
            "SHOP.SEA": [_priced(4, WAYS, "0.95")],
            "DEAD.LETTERS": ["<order><number>7"],
        },
        {"persistent": False},
    ),
    "requests": Case(
        "Requests/Requests.msgflow",
        "requests.yaml",
        "REQUESTS",
        ('{"number":1,"amount":5}', '{"number":2,"amount":-5}', '{"number":3}', '{"number":'),
        {
            "LEDGER": ['{"number":1,"amount":5}'],
            "ANSWERS": ['{"number":1,"booked":true}', '{"number":3,"booked":true}'],
            "ERRORS": ['{"number":2,"error":3050,"text":"an amount must be positive"}'],
            "UNCLEAR": ['{"number":3}'],
            "UNREADABLE": ['{"number":'],
        },
        {"reply_to": "ANSWERS", "type": MessageType.REQUEST, "persistent": True},
    ),
    "invoices": Case(
        "Billing/billing/Invoices.msgflow",
        "billing_invoices.yaml",
        "SALES",
        (
            SALE.format(1, BUYER.format("de") + ITEMS),
            SALE.format(2, BUYER.format("fr") + ITEMS),
            SALE.format(3, BUYER.format("fr")),
            "<sale",
        ),
        {
            "INVOICES": [
                INVOICE.format(1, "DE", "<rate>19</rate>"),
                INVOICE.format(2, "FR", "<rate>0</rate><reason>fr</reason>"),
            ],
            "REMINDERS": [
                INVOICE.format(1, "DE", "<rate>19</rate>"),
                INVOICE.format(2, "FR", "<rate>0</rate><reason>fr</reason>"),
            ],
            "REJECTED": [SALE.format(3, BUYER.format("fr"))],
            "DEAD.LETTERS": ["<sale"],
        },
        {"persistent": True},
    ),
}


def _played(file: str, case: Case) -> MemoryWorld:
    kernel = Kernel(load_flow(PROJECTS / file))
    stage = MemoryWorld(now=1_000_000.0)
    for number, body in enumerate(case.bodies):
        stage.feed(kernel, case.queue, Message(body.encode(), message_id=bytes([number] * 24), **case.options))
    stage.pass_time(60, kernel)
    return stage


def _messages(stage: MemoryWorld) -> dict[str, list[Message]]:
    # What nobody handled is set aside with the error in a property; names of nodes may differ in it.
    return {queue: messages for queue, messages in stage.queues.items() if messages and queue != "DEAD.LETTERS"}


@pytest.mark.parametrize("name", CASES)
def test_an_imported_project_and_the_same_flow_in_yaml_put_the_same_messages(name: str) -> None:
    case = CASES[name]
    imported, by_hand = _played(case.msgflow, case), _played(case.yaml, case)
    assert _messages(imported) == _messages(by_hand)
    assert imported.traces == by_hand.traces
    dead = [stage.queues["DEAD.LETTERS"] for stage in (imported, by_hand)]
    assert [message.body for message in dead[0]] == [message.body for message in dead[1]]


@pytest.mark.parametrize("name", CASES)
def test_an_imported_project_does_what_its_files_say(name: str) -> None:
    case = CASES[name]
    stage = _played(case.msgflow, case)
    found = {queue: [message.body.decode() for message in messages] for queue, messages in stage.queues.items()}
    for queue, bodies in case.queues.items():
        assert found[queue] == bodies, queue


def test_errors_in_an_imported_project_take_the_routes_that_are_drawn() -> None:
    stage = _played("Shop/shop/Orders.msgflow", CASES["orders"])
    unknown_label, bad_price = (message.body.decode() for message in stage.queues["SHOP.BAD"])
    assert "<number>5</number>" in unknown_label
    assert "<complaint>" in unknown_label and "moon" in unknown_label
    # What TryCatch hands on is the message as it came to it, before Price.
    assert "<region>" not in unknown_label
    assert "<number>6</number>" in bad_price and "many" in bad_price.partition("<complaint>")[2]
    assert stage.queues["SHOP.SEA"][0].persistent and not stage.queues["SHOP.STANDARD"][0].persistent


def test_additional_instances_of_an_input_node_are_the_flows() -> None:
    assert load_flow(PROJECTS / "Requests/Requests.msgflow").instances == 3
