# SPDX-License-Identifier: Apache-2.0
"""The five programs of the broker document, chapter 9, as they are printed there, and what they must give."""

from __future__ import annotations

from pathlib import Path

from entrepot.esql.program import EsqlModule, compile_statements
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.tree import Assembly

PROGRAMS = Path(__file__).parent / "broker"


def _module(name: str) -> EsqlModule:
    path = PROGRAMS / name
    return compile_statements(path.read_text(), path.name)


def _run(body: bytes, *modules: EsqlModule) -> bytes:
    assembly: Assembly = parse_message(Message(body, message_id=b"m" * 24), domain="XML")
    for module in modules:
        outputs = module.compute(assembly)
        assert [terminal for terminal, _ in outputs] == ["out"]
        assembly = outputs[0][1]
    return render_message(assembly.root).body


STACK = (
    b"<CSIM><TestCase><Stack><ProcessingPath>"
    b"<Element><COMPONENT>one</COMPONENT><QUEUE>Q1</QUEUE></Element>"
    b"<Element><COMPONENT>two</COMPONENT><QUEUE>Q2</QUEUE></Element>"
    b"</ProcessingPath></Stack></TestCase><Padding>xx</Padding></CSIM>"
)
PATH_MADE = (
    b"<ProcessingPath>"
    b'<Component><Name>one</Name><Transport Type="A"><Queue>Q1</Queue></Transport></Component>'
    b'<Component><Name>two</Name><Transport Type="A"><Queue>Q2</Queue></Transport></Component>'
    b"</ProcessingPath>"
)


def test_simple_changes_one_field_and_keeps_the_rest() -> None:
    body = b"<CSIM><A1>before</A1><A2 id='7'>kept &amp; safe</A2></CSIM>"
    assert _run(body, _module("9_1_simple.esql")) == b'<CSIM><A1>x</A1><A2 id="7">kept &amp; safe</A2></CSIM>'


def test_simple_makes_the_field_that_is_missing() -> None:
    assert _run(b"<CSIM><A2>2</A2></CSIM>", _module("9_1_simple.esql")) == b"<CSIM><A2>2</A2><A1>x</A1></CSIM>"


def test_complex_makes_a_component_for_every_element() -> None:
    expected = STACK.replace(b"</TestCase>", PATH_MADE + b"</TestCase>")
    assert _run(STACK, _module("9_2_complex.esql")) == expected


def test_complex_with_nothing_on_the_stack_copies_the_message() -> None:
    body = b"<CSIM><TestCase/></CSIM>"
    assert _run(body, _module("9_2_complex.esql")) == body


def test_five_nodes_in_a_row_give_what_one_gives() -> None:
    module = _module("9_3_multiple_complex.esql")
    assert _run(STACK, *[module] * 5) == STACK.replace(b"</TestCase>", PATH_MADE + b"</TestCase>")


def test_very_complex_does_the_same_five_times_in_one_node() -> None:
    assert _run(STACK, _module("9_4_very_complex.esql")) == STACK.replace(b"</TestCase>", PATH_MADE + b"</TestCase>")


INVOICES = b"""<CSIM><Data>
<Invoice><Initial>K</Initial><Initial>A</Initial><Surname>Braithwaite</Surname><Balance>81.00</Balance>
<Item><Description>Book</Description><Price>27.95</Price><Quantity>2</Quantity></Item>
<Item><Description>Sample</Description><Price>0.00</Price><Quantity>1</Quantity></Item></Invoice>
<Invoice><Initial>Q</Initial><Surname>Shop</Surname><Balance>5</Balance>
<Item><Description>Pen</Description><Price>1</Price><Quantity>1</Quantity></Item></Invoice>
<Invoice><Initial>T</Initial><Surname>Jones</Surname></Invoice>
</Data></CSIM>"""


def test_nested_select_makes_statements_of_invoices() -> None:
    # 27.95 * 1.6 = 44.72 and twice that 89.44, as FLOATs are written; the Shop's own invoice is left out.
    expected = (
        b'<CSIM><Data><Statement Type="Monthly" Style="Full">'
        b"<Customer><Initials>KA</Initials><Name>Braithwaite</Name><Balance>81.00</Balance></Customer>"
        b"<Purchases><Article><Desc>Book</Desc><Cost>4.472E+1</Cost><Qty>2</Qty></Article></Purchases>"
        b'<Amount Currency="Dollars">8.944E+1</Amount></Statement>'
        b'<Statement Type="Monthly" Style="Full">'
        b"<Customer><Initials>T</Initials><Name>Jones</Name></Customer>"
        b'<Purchases/><Amount Currency="Dollars"/></Statement></Data></CSIM>'
    )
    assert _run(INVOICES, _module("9_5_nested_select.esql")) == expected


def test_nested_select_takes_only_the_descriptor_along() -> None:
    module = _module("9_5_nested_select.esql")
    output = module.compute(parse_message(Message(INVOICES), domain="XML"))[0][1]
    assert [folder.key for folder in output.root] == ["MQMD", "XML"]
