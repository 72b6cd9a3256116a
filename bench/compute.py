# SPDX-License-Identifier: Apache-2.0
"""The Compute nodes of the broker document, chapter 9, against the same work written by hand on lxml.

Bytes in, bytes out, in one process: a message with its descriptor is made a
tree, the program runs, the result is rendered. By hand the body alone is
parsed, changed and serialised. Both take turns, so that a machine that
changes its speed changes it for both; the ratio is of neighbouring turns.
Python's collector runs seldom, as in a process whose work is messages.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

from lxml import etree

from entrepot.esql.program import EsqlModule, compile_condition, compile_statements
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.collecting import collect_seldom
from entrepot.workbench.broker import messages as broker_messages
from entrepot.workbench.broker.messages import STACK
from figures import MEMORY_ONLY, Figure, Outcome, at_least, at_most

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "golden" / "esql" / "broker"
TURNS, TURN_S = 15, 0.1
CHAIN = 5

Work = Callable[[bytes], bytes]


# --- by hand -------------------------------------------------------------------------------------------


def simple_by_hand(body: bytes) -> bytes:
    root = etree.fromstring(body)
    root.find("A1").text = "x"
    return etree.tostring(root)


def _stack_by_hand(root: etree._Element) -> None:
    case = root.find("TestCase")
    path = case.find("ProcessingPath")
    if path is None:
        path = etree.SubElement(case, "ProcessingPath")
    made = path.findall("Component")
    for number, element in enumerate(case.findall("Stack/ProcessingPath/Element")):
        if number < len(made):
            component = made[number]
            name, transport = component.find("Name"), component.find("Transport")
            queue = transport.find("Queue")
        else:
            component = etree.SubElement(path, "Component")
            name = etree.SubElement(component, "Name")
            transport = etree.SubElement(component, "Transport")
            queue = etree.SubElement(transport, "Queue")
        name.text = element.findtext("COMPONENT")
        transport.set("Type", "A")
        queue.text = element.findtext("QUEUE")


def complex_by_hand(body: bytes) -> bytes:
    root = etree.fromstring(body)
    _stack_by_hand(root)
    return etree.tostring(root)


def multiple_by_hand(body: bytes) -> bytes:
    """Each node leaves its input as it was, and so works on a copy, except the first: nobody else has that tree."""
    root = etree.fromstring(body)
    _stack_by_hand(root)
    for _ in range(CHAIN - 1):
        root = copy.deepcopy(root)
        _stack_by_hand(root)
    return etree.tostring(root)


def very_complex_by_hand(body: bytes) -> bytes:
    root = etree.fromstring(body)
    for _ in range(CHAIN):
        _stack_by_hand(root)
    return etree.tostring(root)


def nested_by_hand(body: bytes) -> bytes:
    root = etree.fromstring(body)
    answer = etree.Element("CSIM")
    data = etree.SubElement(answer, "Data")
    for invoice in root.iterfind("Data/Invoice"):
        surname = invoice.findtext("Surname")
        if surname == "Shop":
            continue
        statement = etree.SubElement(data, "Statement", Type="Monthly", Style="Full")
        customer = etree.SubElement(statement, "Customer")
        etree.SubElement(customer, "Initials").text = "".join(e.text or "" for e in invoice.findall("Initial")[:2])
        etree.SubElement(customer, "Name").text = surname
        etree.SubElement(customer, "Balance").text = invoice.findtext("Balance")
        purchases = etree.SubElement(statement, "Purchases")
        amount = 0.0
        for item in invoice.iterfind("Item"):
            price, count = float(item.findtext("Price")), item.findtext("Quantity")
            amount += price * float(count) * 1.6
            if price > 0:
                article = etree.SubElement(purchases, "Article")
                etree.SubElement(article, "Desc").text = item.findtext("Description")
                etree.SubElement(article, "Cost").text = _esql_float(price * 1.6)
                etree.SubElement(article, "Qty").text = count
        total = etree.SubElement(statement, "Amount", Currency="Dollars")
        total.text = _esql_float(amount)
    return etree.tostring(answer)


def _esql_float(value: float) -> str:
    """4.472E+1 for 44.72, as ESQL writes it."""
    return f"{Decimal(repr(value)).normalize():E}"


# --- in ESQL -------------------------------------------------------------------------------------------


def compute(modules: list[EsqlModule], body: bytes) -> bytes:
    """A message through Compute nodes in a row, each getting what the one before it made."""
    assembly = parse_message(Message(body), domain="XML")
    for module in modules:
        assembly = module.compute(assembly)[0][1]
    return render_message(assembly.root).body


def programs() -> dict[str, tuple[Work, Work, Callable[[int], bytes]]]:
    """Each case: by hand, in ESQL, and its message."""
    names = ("9_1_simple", "9_2_complex", "9_3_multiple_complex", "9_4_very_complex", "9_5_nested_select")
    simple, complex_, link, very_complex, nested = (
        compile_statements((PROGRAMS / f"{name}.esql").read_text(), name) for name in names
    )
    return {
        "simple": (simple_by_hand, partial(compute, [simple]), broker_messages.flat),
        "complex": (complex_by_hand, partial(compute, [complex_]), broker_messages.stack),
        "multiple complex": (multiple_by_hand, partial(compute, [link] * CHAIN), broker_messages.stack),
        "very complex": (very_complex_by_hand, partial(compute, [very_complex]), broker_messages.stack),
        "nested SELECT": (nested_by_hand, partial(compute, [nested]), broker_messages.invoices),
    }


# --- measuring -----------------------------------------------------------------------------------------


def seconds(work: Callable[[], object], turn_s: float) -> float:
    """What one call takes, over a turn of about that long."""
    count, begun = 0, time.perf_counter()
    while True:
        for _ in range(10):
            work()
        count += 10
        elapsed = time.perf_counter() - begun
        if elapsed >= turn_s:
            return elapsed / count


def turns(works: list[Callable[[], object]], quick: bool) -> list[list[float]]:
    """Seconds a call for each of several works, turn by turn."""
    return [[seconds(work, TURN_S / 5 if quick else TURN_S) for work in works] for _ in range(3 if quick else TURNS)]


def measure(*, quick: bool = False) -> Outcome:
    collect_seldom()
    labels: list[str] = []
    works: list[Callable[[], object]] = []
    for name, (by_hand, in_esql, message) in programs().items():
        for size in broker_messages.SIZES:
            body = message(size)
            if size < len(message(0)):
                continue
            # The same work gives the same bytes.
            assert by_hand(body) == in_esql(body)
            labels.append(f"{name}, {size // 1024} KB")
            works += [partial(by_hand, body), partial(in_esql, body)]
    # All cases in every turn, so that a slow minute of the machine is not one case's alone.
    found = turns(works, quick)
    figures: list[Figure] = []
    for number, label in enumerate(labels):
        pairs = [(turn[2 * number], turn[2 * number + 1]) for turn in found]
        figures.append(Figure(f"{label}: ESQL msg/s", [1 / esql for _, esql in pairs], MEMORY_ONLY))
        ratios = [esql / hand for hand, esql in pairs]
        figures.append(Figure(f"{label}: times of lxml by hand", ratios, MEMORY_ONLY, at_most(2)))
    figures.extend(_filters(quick))
    return Outcome(
        "compute",
        f"the broker document's Compute nodes on bytes in memory; the complex ones loop over {STACK} elements",
        figures,
    )


def _filters(quick: bool) -> list[Figure]:
    """A Filter that asks for the second field of a large message, against one that has to read all of it."""
    early = compile_condition("Root.XML.CSIM.A2 = 'string-00002'")
    body = broker_messages.flat(65536)

    def ask() -> object:
        return early.filter(parse_message(Message(body), domain="XML"))

    def whole() -> object:
        root = parse_message(Message(body), domain="XML").root
        return [element.value for element in root.children[-1].children[0].children]

    assert ask() is True
    found = turns([ask, whole], quick)
    return [
        Figure("filter near the start of 64 KB msg/s", [1 / early_s for early_s, _ in found], MEMORY_ONLY),
        Figure(
            "filter near the start of 64 KB: times faster than parsing the whole",
            [whole_s / early_s for early_s, whole_s in found],
            MEMORY_ONLY,
            at_least(5),
        ),
    ]
