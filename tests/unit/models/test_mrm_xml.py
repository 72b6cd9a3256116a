# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import MessageTooComplex, MessageUnreadable, MessageUnwritable, ModelInvalid
from entrepot.models.element_types import NAME, NAME_VALUE
from entrepot.models.logical import MessageFormat
from entrepot.models.mrm import MRM
from entrepot.models.mrm_xml import XmlCodec, compile_xml
from entrepot.models.notation import read_notation
from entrepot.models.tree import Element, Folder
from entrepot.models.tree_json import tree_from_json, tree_to_json
from folding import for_each

ORDER = """
messages:
  Order:
    - id: string
    - count: integer
    - price: decimal
    - weight?: float
    - urgent?: boolean
    - seal?: binary
    - placed?: date
    - at?: time
    - changed?: datetime
    - due?: date
      format: dd.MM.yyyy
    - line*:
        - sku: string
        - n?: integer
"""


def codec(text: str, message: str = "Order", form: str = "XML1") -> XmlCodec:
    return compile_xml(read_notation(text, "m.yaml"), message, form)


def parsed(made: XmlCodec, body: bytes | str, ccsid: int = 1208) -> Element:
    message = Element("MRM")
    message.fill(made.parse(body.encode() if isinstance(body, str) else body, ccsid, 546))
    return message


def rendered(made: XmlCodec, message: Element, ccsid: int = 1208) -> bytes:
    return made.render(message, ccsid, 546)


def tree(**values: Any) -> Element:
    message = Element("MRM")
    for name, value in values.items():
        message.add(name, value, NAME_VALUE)
    return message


FULL = (
    '<?xml version="1.0"?><Order><id>A &amp; B</id><count>-12</count><price>9.90</price><weight>1.5E+0</weight>'
    "<urgent>true</urgent><seal>00FF</seal><placed>2026-01-31</placed><at>10:11:12</at>"
    "<changed>2026-01-31T10:11:12</changed><due>01.02.2026</due><line><sku>x</sku><n>1</n></line>"
    "<line><sku>y</sku></line></Order>"
)


def test_every_type_is_read() -> None:
    found = parsed(codec(ORDER), FULL)
    assert [(child.key, child.value) for child in found][:10] == [
        ("id", "A & B"), ("count", -12), ("price", Decimal("9.90")), ("weight", 1.5), ("urgent", True),
        ("seal", b"\x00\xff"), ("placed", date(2026, 1, 31)), ("at", time(10, 11, 12)),
        ("changed", datetime(2026, 1, 31, 10, 11, 12)), ("due", date(2026, 2, 1)),
    ]  # fmt: skip
    first, second = found.all("line")
    assert (first.get("sku"), first.get("n"), second.get("sku"), second.get("n")) == ("x", 1, "y", None)
    assert (first.kind, found.children[0].kind, first.parent) == (NAME, NAME_VALUE, found)
    assert str(found.get("price")) == "9.90"


def test_what_was_read_is_written_byte_for_byte() -> None:
    made = codec(ORDER)
    assert rendered(made, parsed(made, FULL)) == FULL.encode()


def test_blanks_comments_and_cdata_do_not_matter() -> None:
    body = "<Order>\n <id>a<!-- c -->b</id>\n <count> 7\n</count><price><![CDATA[1.0]]></price>\n</Order>\n"
    found = parsed(codec(ORDER), body)
    assert (found.get("id"), found.get("count"), found.get("price")) == ("ab", 7, Decimal("1.0"))


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_booleans(text: str, value: bool) -> None:
    found = parsed(codec("messages:\n  M: [a: boolean]\n", "M"), f"<M><a>{text}</a></M>")
    assert found.get("a") is value


@pytest.mark.parametrize(
    ("text", "value"), [("1E3", 1000.0), ("INF", float("inf")), ("-INF", float("-inf")), (".5", 0.5)]
)
def test_floats(text: str, value: float) -> None:
    made = codec("messages:\n  M: [a: float]\n", "M")
    assert parsed(made, f"<M><a>{text}</a></M>").get("a") == value


def test_tags_by_model_attributes_and_namespaces() -> None:
    made = codec(
        "namespace: http://shop\n"
        "formats: {XML1: {kind: xml, namespaces: {s: 'http://shop'}, declaration: false}}\n"
        "messages:\n  Order:\n    - id: string\n      attribute: true\n    - n: integer\n      xml: {name: Number}\n"
        "    - '{http://b}other': string\n    - '{}plain': [x?: {type: string, attribute: true}, y: string]\n",
    )
    body = (
        b'<s:Order xmlns:s="http://shop" xmlns:ns1="http://b" id="1&quot;&lt;"><s:Number>2</s:Number>'
        b'<ns1:other>o</ns1:other><plain x="p"><s:y>q</s:y></plain></s:Order>'
    )
    found = parsed(made, body)
    assert [(child.key, child.value) for child in found] == [
        ("id", '1"<'), ("{http://shop}n", 2), ("{http://b}other", "o"), ("{}plain"[2:], None),
    ]  # fmt: skip
    assert found.children[3].get("x") == "p"
    assert rendered(made, found) == body
    default = b'<Order xmlns="http://shop" xmlns:o="http://b" id="a"><Number>2</Number><o:other/><plain xmlns=""><y xmlns="http://shop"/></plain></Order>'
    assert parsed(made, default).get("{http://shop}n") == 2


def test_a_tag_around_the_message() -> None:
    made = codec("formats: {XML1: {kind: xml, root: env, declaration: no}}\nmessages: {M: [a: string]}\n", "M")
    assert rendered(made, parsed(made, "<env><M><a>1</a></M></env>")) == b"<env><M><a>1</a></M></env>"
    with pytest.raises(MessageUnreadable, match="outermost tag is M, not env"):
        parsed(made, "<M><a>1</a></M>")


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        ("empty", b"<M><a/><b/></M>"),
        ("absent", b"<M></M>"),
        ("nil", b'<M xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><a xsi:nil="true"/><b xsi:nil="true"/></M>'),
    ],
)
def test_nulls_are_written_as_the_format_says(policy: str, written: bytes) -> None:
    formats = f"formats: {{XML1: {{kind: xml, declaration: no, encode_null: {policy}}}}}\n"
    made = codec(f"{formats}messages:\n  M:\n    - a?: integer\n    - b?: string\n", "M")
    assert rendered(made, tree(a=None, b=None)) == written
    assert parsed(made, written).get("a") is None


def test_an_empty_string_stays_one_and_nil_is_null() -> None:
    made = codec("messages:\n  M:\n    - a: string\n    - b: string\n", "M")
    nil = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="1"'
    found = parsed(made, f"<M><a/><b {nil}/></M>")
    assert (found.get("a"), found.get("b")) == ("", None)


def test_a_choice_and_groups_that_repeat() -> None:
    made = codec(
        "formats: {XML1: {kind: xml, declaration: no}}\nmessages:\n  M:\n    - choice:\n        - a: string\n"
        "        - b: string\n    - sequence*:\n        - c: string\n        - d?: string\n    - e?: string\n",
        "M",
    )
    for body in (b"<M><a>1</a></M>", b"<M><b>1</b><c>2</c><c>3</c><d>4</d><c>5</c><e>6</e></M>"):
        assert rendered(made, parsed(made, body)) == body
    for body, complaint in (
        ("<M/>", "a or b is missing"),
        ("<M><a/><b/></M>", "not expected"),
        ("<M><a/><d/></M>", "not expected"),
        ("<M><a/><c/><d/><d/></M>", "not expected"),
    ):
        with pytest.raises(MessageUnreadable, match=complaint):
            parsed(made, body)


def test_unordered_elements_come_in_any_order_and_are_written_in_the_models() -> None:
    made = codec("messages:\n  M:\n    unordered:\n      - a: string\n      - b: string\n", "M")
    assert rendered(made, parsed(made, "<M><b>2</b><a>1</a></M>")).endswith(b"<M><a>1</a><b>2</b></M>")


def test_fields_set_in_another_order_are_written_in_the_models() -> None:
    made = codec("messages:\n  M:\n    - a: string\n    - b*: string\n    - c: string\n", "M")
    message = tree(c="3", b="2", a="1")
    message.add("b", "4")
    assert rendered(made, message).endswith(b"<M><a>1</a><b>2</b><b>4</b><c>3</c></M>")
    made = codec("messages:\n  M:\n    - a: string\n    - choice: [b: string, c: string]\n", "M")
    assert rendered(made, tree(c="3", a="1")).endswith(b"<M><a>1</a><c>3</c></M>")


def test_values_of_other_types_are_written_when_they_mean_the_same() -> None:
    made = codec(ORDER)
    message = tree(id=5, count="12", price=3, weight=Decimal("1.5"), urgent="1", placed="2026-01-31")
    assert rendered(made, message).endswith(
        b"<Order><id>5</id><count>12</count><price>3</price><weight>1.5E+0</weight><urgent>true</urgent>"
        b"<placed>2026-01-31</placed></Order>"
    )


def test_what_is_missing_takes_its_default() -> None:
    made = codec(
        "messages:\n  M:\n    - a: integer\n      default: '7'\n    - b: string\n      attribute: true\n"
        "      default: x\n",
        "M",
    )
    assert rendered(made, tree()).endswith(b'<M b="x"><a>7</a></M>')
    found = parsed(made, "<M><a/></M>")
    assert (found.get("a"), found.get("b")) == (7, "x")


def test_other_code_pages() -> None:
    made = codec("formats: {XML1: {kind: xml, declaration: no}}\nmessages: {M: [a: string]}\n", "M")
    assert rendered(made, tree(a="é€"), 819) == "<M><a>é&#8364;</a></M>".encode("latin-1")
    for ccsid, name in ((500, "cp500"), (819, "latin-1"), (1200, "utf-16-le")):
        body = "<M><a>é</a></M>".encode(name)
        assert rendered(made, tree(a="é"), ccsid) == body
        assert parsed(made, body, ccsid).get("a") == "é"


def test_the_domain_finds_the_codec() -> None:
    model = MessageFormat(read_notation(ORDER), "Order", "XML1")
    folder = Folder(MRM, FULL.encode(), model=model)
    assert folder.get("count") == -12
    first = folder.first("count")
    assert first is not None
    first.set_value(13)
    assert folder.render() == FULL.encode().replace(b"-12", b"13")


# --- mistakes -------------------------------------------------------------------------------------------------

PLACED = "<Order>\n<id>é</id><count>1</count><price>1</price>"


@for_each(
    ("body", "path", "sign", "complaint"),
    [
        ("<Oder/>", "MRM", "<Oder", "tag is Oder, not Order"),
        (f"{PLACED}<nope/></Order>", "MRM.nope", "<nope", "not expected here; here can be id, count"),
        ("<Order><id/><price/><count/></Order>", "MRM.count", "<count", "must come before it"),
        ("<Order><id/><id/></Order>", "MRM.id[2]", "<id/></", "twice"),
        ("<Order><id/><count>1</count></Order>", "MRM.price", "<Order", "price is missing"),
        ("<Order><id/><count>x</count></Order>", "MRM.count", "<count", "'x': it is no whole number"),
        ("<Order><id/><count>1_0</count></Order>", "MRM.count", "<count", "no whole number"),
        ("<Order><id/><count>٣</count></Order>", "MRM.count", "<count", "no whole number"),
        ("<Order><id/><count>1</count><price>1e5</price></Order>", "MRM.price", "<price", "no decimal"),
        (f"{PLACED}<weight>nan</weight></Order>", "MRM.weight", "<weight", "no number"),
        (f"{PLACED}<urgent>yes</urgent></Order>", "MRM.urgent", "<urgent", "none of true"),
        (f"{PLACED}<seal>0</seal></Order>", "MRM.seal", "<seal", "not hexadecimal"),
        (f"{PLACED}<placed>31.1.26</placed></Order>", "MRM.placed", "<placed", "31.1.26"),
        (f"{PLACED}<due>2026-01-31</due></Order>", "MRM.due", "<due", "2026-01-31"),
        (f"{PLACED}<line><sku/></line><line/></Order>", "MRM.line[2].sku", "<line/>", "sku is missing"),
        ("<Order><id>a<b/></id></Order>", "MRM.id.b", "<b", "has no elements"),
        ("<Order>text<id/></Order>", "MRM", "<Order", "text is not expected"),
        ("<Order><id/>text</Order>", "MRM.id", "<id", "text is not expected behind it"),
        ("<Order x='1'/>", "MRM", "<Order", "attribute x is not expected"),
        ("<Order><id x='1'/></Order>", "MRM.id", "<id", "attribute x is not expected"),
    ],
)
def test_what_does_not_fit_is_told_with_path_and_offset(body: str, path: str, sign: str, complaint: str) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        parsed(codec(ORDER), body)
    assert complaint in caught.value.problem
    assert (caught.value.path, caught.value.offset) == (path, body.encode().index(sign.encode()))


@for_each(
    "body",
    [
        b"", b"<", b"<Order>", b"no", b"\x00\x01", b"<Order>\xff</Order>", b"<Order><id></Order>", b"\xff\xfe",
        b'<!DOCTYPE Order [<!ENTITY a "b">]><Order><id>&a;</id></Order>',
        b'<?xml version="1.0"?><!-- --><!DOCTYPE Order SYSTEM "file:///etc/passwd"><Order/>',
        b"<Order><id>&undefined;</id></Order>",
    ],
)  # fmt: skip
def test_what_is_no_xml_and_document_types_are_refused(body: bytes) -> None:
    with pytest.raises(MessageUnreadable):
        parsed(codec(ORDER), body)


def test_a_message_without_end_is_refused() -> None:
    with pytest.raises((MessageUnreadable, MessageTooComplex)):
        parsed(codec(ORDER), b"<Order>" * 100_000)


@for_each(
    ("values", "path", "complaint"),
    [
        ({"id": "a", "count": 1}, "MRM.price", "missing"),
        ({"id": "a", "count": "x", "price": 1}, "MRM.count", "no whole number"),
        ({"id": "a", "count": Decimal("1.5"), "price": 1}, "MRM.count", "no integer"),
        ({"id": "a", "count": True, "price": 1}, "MRM.count", "no integer"),
        ({"id": "a", "count": 1, "price": date(2026, 1, 1)}, "MRM.price", "no decimal"),
        ({"id": "a", "count": 1, "price": 1, "nope": 1}, "MRM.nope", "no such element"),
        ({"id": "a\x00", "count": 1, "price": 1}, "MRM.id", "0x0000"),
        ({"id": "a\ud800", "count": 1, "price": 1}, "MRM.id", "0xd800"),
    ],
)
def test_what_cannot_be_written_is_told_with_its_path(values: dict[str, Any], path: str, complaint: str) -> None:
    with pytest.raises(MessageUnwritable, match=complaint) as caught:
        rendered(codec(ORDER), tree(**values))
    assert caught.value.path == path


def test_too_many_and_structures_for_values_are_refused() -> None:
    made = codec(ORDER)
    message = tree(id="a", count=1, price=1)
    message.add("id", "b")
    with pytest.raises(MessageUnwritable, match="allows it 1 times"):
        rendered(made, message)
    message = tree(id=None, count=1, price=1)
    message.children[0].add("x", 1)
    with pytest.raises(MessageUnwritable, match="not a structure"):
        rendered(made, message)


@pytest.mark.parametrize(
    "text",
    [
        "messages:\n  M:\n    - a*: string\n      attribute: true\n",
        "messages:\n  M:\n    - a: [b: string]\n      attribute: true\n",
        "messages:\n  M:\n    - a: date\n      default: nodate\n",
        "formats: {XML1: {kind: xml, namespaces: {'': 'http://s'}}}\nmessages: {M: [a: string]}\n",
    ],
)
def test_models_that_xml_cannot_do_are_refused(text: str) -> None:
    with pytest.raises(ModelInvalid):
        codec(text, "M")


# --- round trips --------------------------------------------------------------------------------------------------

LETTERS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=8)
LINES = st.lists(st.tuples(LETTERS, st.none() | st.integers()), max_size=3)


ORDERS = st.tuples(
    LETTERS,
    st.integers(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.floats(allow_nan=False),
    st.booleans(),
    st.binary(max_size=5),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.dates(date(1000, 1, 1)),
    LINES,
)


@settings(max_examples=80)
@given(ORDERS)
def test_every_order_survives_xml(values: tuple[Any, ...]) -> None:
    names = ("id", "count", "price", "weight", "urgent", "seal", "placed", "at", "changed", "due")
    message = tree(**dict(zip(names, values[:-1], strict=True)))
    for sku, n in values[-1]:
        line = message.add("line")
        line.add("sku", sku, NAME_VALUE)
        if n is not None:
            line.add("n", n, NAME_VALUE)
    made = codec(ORDER)
    assert tree_to_json(parsed(made, rendered(made, message))) == tree_to_json(message)


@settings(max_examples=100)
@given(st.binary(max_size=30), st.integers(0, len(FULL)), st.integers(0, 20))
def test_damaged_messages_are_refused_or_read_but_never_break(noise: bytes, start: int, gap: int) -> None:
    body = FULL.encode()
    damaged = body[:start] + noise + body[start + gap :]
    try:
        codec(ORDER).parse(damaged, 1208, 546)
    except (MessageUnreadable, MessageTooComplex) as error:
        assert 0 <= error.offset <= len(damaged)


def test_a_zoned_time_keeps_its_zone() -> None:
    made = codec("messages: {M: [a: datetime]}\n", "M")
    message = tree_from_json(
        {"name": "MRM", "children": [{"name": "a", "type": "GMTTIMESTAMP", "value": "2026-01-31T00:00:00+00:00"}]}
    )
    assert rendered(made, message).endswith(b"<a>2026-01-31T00:00:00Z</a></M>")
    assert parsed(made, rendered(made, message)).get("a") == datetime(2026, 1, 31, tzinfo=UTC)
