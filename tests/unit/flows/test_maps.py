# SPDX-License-Identifier: Apache-2.0
"""Maps: our tables and IBM's .map files, as ESQL."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.esql import compile_statements
from entrepot.flows.maps import MapFile, Target, read_map, write_map
from entrepot.message import Message
from entrepot.models import parse_message, render_message
from folding import for_each

SALE = (
    b"<sale><number>17</number><buyer><first>Ada</first><last>Byron</last></buyer>"
    b"<lines><line><sku>a</sku><count>2</count></line><line><sku>b</sku><count>0</count></line></lines>"
    b"<tag>x</tag><tag>y</tag></sale>"
)


def _mapped(table: Any, body: bytes = SALE, *, to: str = "XMLNSC", domain: str = "XMLNSC") -> bytes:
    text = write_map(table, Target(to))
    assert text.problems == ()
    return _run(text.esql, body, domain).body


def _run(esql: str, body: bytes, domain: str) -> Message:
    module = compile_statements(esql, "map")
    message = Message(body, message_id=b"m" * 24, reply_to="ANSWERS", priority=7)
    return render_message(module.compute(parse_message(message, domain=domain))[0][1].root)


def test_elements_are_copied_and_headers_stay() -> None:
    text = write_map({"copy": [{"from": "sale.number", "to": "bill.id"}, {"from": "sale.buyer", "to": "bill.who"}]},
                     Target("XMLNSC"))  # fmt: skip
    message = _run(text.esql, SALE, "XMLNSC")
    assert message.body == b"<bill><id>17</id><who><first>Ada</first><last>Byron</last></who></bill>"
    assert (message.message_id, message.reply_to, message.priority) == (b"m" * 24, "ANSWERS", 7)


def test_a_path_alone_is_copied_to_the_same_place() -> None:
    assert _mapped({"copy": ["sale.number", "sale.tag[]"]}) == (
        b"<sale><number>17</number><tag>x</tag><tag>y</tag></sale>"
    )


def test_what_is_missing_is_not_made() -> None:
    assert _mapped({"copy": ["sale.number", "sale.colour"]}) == b"<sale><number>17</number></sale>"


def test_expressions_see_both_sides_and_constants_are_themselves() -> None:
    table = {
        "set": {
            "bill.name": "source.sale.buyer.first || ' ' || source.sale.buyer.last",
            "bill.again": "UPPER(target.bill.name)",
            "bill.count": 2,
            "bill.paid": False,
        }
    }
    assert _mapped(table) == (
        b"<bill><name>Ada Byron</name><again>ADA BYRON</again><count>2</count><paid>false</paid></bill>"
    )


def test_from_and_to_are_where_paths_start() -> None:
    assert _mapped({"from": "sale", "to": "bill", "copy": ["number"]}) == b"<bill><number>17</number></bill>"


def test_foreach_makes_an_element_for_each_that_fulfils_its_condition() -> None:
    loop = {
        "from": "lines.line",
        "to": "items.item",
        "where": "source.count <> '0'",
        "map": {
            "copy": ["sku"],
            "set": {"double": "CAST(source.count AS INTEGER) * 2", "sale": "InputBody.sale.number"},
        },
    }
    assert _mapped({"from": "sale", "to": "bill", "foreach": loop}) == (
        b"<bill><items><item><sku>a</sku><double>4</double><sale>17</sale></item></items></bill>"
    )


def test_loops_inside_of_loops_reach_the_outer_one_by_its_name() -> None:
    body = b"<a><g n='1'><v>x</v><v>y</v></g><g n='2'><v>z</v></g></a>"
    inner = {"from": "v", "to": "w", "map": {"set": {"group": "g.n", "value": "source"}}}
    table = {"foreach": {"from": "a.g", "to": "b.h", "as": "g", "into": "h", "map": {"foreach": inner}}}
    assert _mapped(table, body) == (
        b"<b><h><w><group>1</group><value>x</value></w><w><group>1</group><value>y</value></w></h>"
        b"<h><w><group>2</group><value>z</value></w></h></b>"
    )


@pytest.mark.parametrize(("number", "expected"), [("17", b"<b><big>1</big></b>"), ("3", b"<b><small>1</small></b>")])
def test_if_and_else(number: str, expected: bytes) -> None:
    choice = {
        "when": "CAST(source.sale.number AS INTEGER) > 10",
        "map": {"set": {"b.big": 1}},
        "else": {"set": {"b.small": 1}},
    }
    assert _mapped({"if": choice}, SALE.replace(b"17", number.encode())) == expected


def test_a_list_of_tables_is_done_in_turn() -> None:
    table = [{"set": {"b.one": 1}}, {"copy": [{"from": "sale.number", "to": "b.two"}]}, {"set": {"b.three": 3}}]
    assert _mapped(table) == b"<b><one>1</one><two>17</two><three>3</three></b>"


def test_without_a_model_all_same_names_copies_the_tree() -> None:
    assert _mapped({"from": "sale.buyer", "to": "person", "copy": "all-same-names"}) == (
        b"<person><first>Ada</first><last>Byron</last></person>"
    )


def test_lists_of_json_are_made_as_lists() -> None:
    loop = {"from": "sale.lines.line", "to": "Data.(JSON.Array)items.Item", "map": {"copy": ["sku"]}}
    assert _mapped({"foreach": loop}, to="JSON") == b'{"items":[{"sku":"a"},{"sku":"b"}]}'


def test_without_a_domain_the_output_has_the_inputs() -> None:
    assert _mapped({"set": {"Data.a": 1}}, b'{"x":1}', to="", domain="JSON") == b'{"a":1}'


def test_other_trees_can_be_read_and_set() -> None:
    text = write_map(
        {"copy": [{"from": "InputRoot.MQMD.ReplyToQ", "to": "b.q"}], "set": {"OutputRoot.MQMD.Priority": 1}},
        Target("XMLNSC"),
    )
    message = _run(text.esql, SALE, "XMLNSC")
    assert message.body.replace(b" ", b"") == b"<b><q>ANSWERS</q></b>"
    assert message.priority == 1


def test_everything_that_is_wrong_with_a_table_is_told_at_once() -> None:
    table = {
        "cpoy": ["a"],
        "select": "x",
        "copy": ["a b", {"from": "a"}],
        "set": {"x": "1 +", "y": [1]},
        "foreach": [{"from": "a"}, {"from": "a", "to": "b", "as": "1x", "map": {}}],
        "if": {"when": "TRUE"},
    }
    found = dict(write_map(table, Target("XMLNSC")).problems)
    assert "did you mean 'copy'" in found["map.cpoy"]
    assert "not supported" in found["map.select"]
    assert any(where.startswith("map.copy[1].from") for where in found)
    assert found["map.copy[2]"] == "a copy has from and to"
    assert any(where.startswith("map.set.x:") for where in found)
    assert "map.set.y" in found
    assert found["map.foreach[1]"] == "a foreach has from, to and map"
    assert "no name" in found["map.foreach[2].as"]
    assert "when and map" in found["map.if[1]"]


def test_a_path_cannot_smuggle_statements_in() -> None:
    text = write_map({"copy": [{"from": "a; DELETE FIELD OutputRoot", "to": "b"}]}, Target("XMLNSC"))
    assert text.problems and "DELETE" not in text.esql


def test_a_table_that_is_nested_without_end_is_refused() -> None:
    table: dict[str, Any] = {"set": {"a": 1}}
    for _ in range(30):
        table = {"if": {"when": "TRUE", "map": table}}
    assert any("deep" in problem for _, problem in write_map(table, Target("XMLNSC")).problems)


# --- .map files ---------------------------------------------------------------------------------


def _map_file(transforms: str, *, source: str = "sale,assembly,XMLNSC,Properties", extra: str = "") -> MapFile:
    return read_map(
        f"""<?xml version="1.0" encoding="UTF-8"?>
<mappingRoot xmlns="http://www.ibm.com/2008/ccl/Mapping" domainID="com.ibm.msl.mapping.xml" version="8.0.5.0">
  <namespaces><namespace prefix="fn" uri="http://www.w3.org/2005/xpath-functions"/></namespaces>
  <mappingDeclaration name="Test">
    <input path="mb:msg({source})" var="in"{extra}/>
    <output path="mb:msg(bill,assembly,XMLNSC,Properties)" var="out"/>
{transforms}
  </mappingDeclaration>
</mappingRoot>""",
        "test.map",
    )


def _transformed(transforms: str) -> bytes:
    read = _map_file(transforms)
    assert read.problems == ()
    text = write_map(read.table, read.target)
    assert text.problems == ()
    return _run(text.esql, SALE, "XMLNSC").body


@for_each(
    ("transforms", "expected"),
    [
        ('<move><input path="$in/sale/number"/><output path="$out/bill/id"/></move>', b"<bill><id>17</id></bill>"),
        ('<move><input path="$in/sale/tag"/><output path="$out/bill/t"/></move>', b"<bill><t>x</t><t>y</t></bill>"),
        ('<move><input path="$in/sale/tag[2]"/><output path="$out/bill/t"/></move>', b"<bill><t>y</t></bill>"),
        ('<assign value="it\'s"><output path="$out/bill/@kind"/></assign>', b'<bill kind="it\'s"/>'),
        (
            '<function ref="fn:concat"><input path="$in/sale/buyer/first" var="a"/><input path="$in/sale/buyer/last"'
            ' var="b"/><output path="$out/bill/n"/><param name="x" value="$a"/><param name="y" value="\', \'"/>'
            '<param name="z" value="$b"/></function>',
            b"<bill><n>Ada, Byron</n></bill>",
        ),
        (
            '<function ref="fn:substring"><input path="$in/sale/buyer/last" var="b"/><output path="$out/bill/n"/>'
            '<param name="s" value="$b"/><param name="from" value="1"/><param name="n" value="3"/></function>',
            b"<bill><n>Byr</n></bill>",
        ),
        (
            '<function ref="xs:int"><input path="$in/sale/number"/><output path="$out/bill/n"/></function>',
            b"<bill><n>17</n></bill>",
        ),
        (
            '<custom><input path="$in/sale/lines" var="l"/><output path="$out/bill/n"/>'
            '<code language="xpath">count($l/line) + 1</code></custom>',
            b"<bill><n>3</n></bill>",
        ),
        (
            '<convert defaultValue="none"><input path="$in/sale/colour"/><output path="$out/bill/c"/></convert>',
            b"<bill><c>none</c></bill>",
        ),
        (
            '<foreach><input path="$in/sale/lines/line" var="l"/><output path="$out/bill/items/item"/>'
            '<filter lang="xpath">$l/count &gt; 1</filter>'
            '<move><input path="$l/sku"/><output path="article"/></move></foreach>',
            b"<bill><items><item><article>a</article></item></items></bill>",
        ),
        (
            '<local><input path="$in/sale/buyer"/><output path="$out/bill/who"/>'
            '<move><input path="last"/><output path="name"/></move></local>',
            b"<bill><who><name>Byron</name></who></bill>",
        ),
        (
            '<condition><if><input path="$in/sale" var="s"/><output path="$out/bill" var="b"/>'
            '<test lang="xpath">$s/number &gt; 100</test><assign value="big"><output path="$b/size"/></assign></if>'
            '<elseif><input path="$in/sale" var="s2"/><output path="$out/bill" var="b2"/>'
            '<test lang="xpath">$s2/number &gt; 10</test><assign value="middle"><output path="$b2/size"/></assign>'
            '</elseif><else><output path="$out/bill" var="b3"/>'
            '<assign value="small"><output path="$b3/size"/></assign></else></condition>',
            b"<bill><size>middle</size></bill>",
        ),
        (
            '<move><input path="$in/Properties"/><output path="$out/Properties"/><override>'
            '<assign value="SET"><output path="$out/Properties/MessageSet"/></assign></override></move>'
            '<move><input path="$in/sale/number"/><output path="$out/bill/id"/></move>',
            b"<bill><id>17</id></bill>",
        ),
        ("<task><input path='$in/sale'/></task><assign value='1'><output path='$out/bill/x'/></assign>",
         b"<bill><x>1</x></bill>"),
    ],
)  # fmt: skip
def test_transforms_of_a_map_file_do_what_they_are_called(transforms: str, expected: bytes) -> None:
    assert _transformed(transforms) == expected


def test_what_a_map_file_cannot_have_is_refused_by_name_and_line() -> None:
    read = _map_file(
        "<select><input path='$in/sale'/><output path='$out/bill'/></select>\n"
        "<submap ref='x'><input path='$in/sale'/><output path='$out/bill'/></submap>\n"
        "<function ref='java:x'><input path='$in/sale'/><output path='$out/bill/a'/></function>\n"
        "<custom><output path='$out/bill/a'/><code language='java'>x</code></custom>\n"
        "<move><input path='$nobody/sale'/><output path='$out/bill/a'/></move>\n"
        "<join/>"
    )
    told = [f"{where} {problem}" for where, problem in read.problems]
    assert [line.split()[0] for line in told] == [f"test.map:{number}" for number in range(7, 13)]
    for word, line in zip(("<select>", "<submap>", "java:x", "java", "$nobody", "<join>"), told, strict=True):
        assert word in line


def test_a_namespace_needs_the_schema_that_says_which_elements_have_it() -> None:
    read = _map_file("", extra=' namespace="urn:x"')
    assert "is not there" in read.problems[0][1]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<mappingRoot", "no XML"),
        (b"<!DOCTYPE m [<!ENTITY e 'x'>]><m>&e;</m>", "DOCTYPE"),
        (b"<mapping/>", "no graphical data map"),
        (b'<mappingRoot xmlns="http://www.ibm.com/2008/ccl/Mapping"/>', "no map"),
    ],
)
def test_a_file_that_is_no_map_is_told_so(content: bytes, told: str) -> None:
    read = read_map(content, "x.map", name="Test")
    assert read.problems[0][0].startswith("x.map:1") and told in read.problems[0][1]


def test_domains_that_nobody_parses_here_are_refused() -> None:
    assert "DFDL" in _map_file("", source="sale,assembly,DFDL,Properties").problems[0][1]
