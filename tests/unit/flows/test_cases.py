# SPDX-License-Identifier: Apache-2.0
"""Test files for `entrepot flow test`: what they may say, what is wrong with them, and their verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.errors import FlowInvalid, FlowTestInvalid
from entrepot.flows.trials.cases import read_test_file
from entrepot.flows.trials.verdicts import CaseVerdict, run_test_file

FLOW = """
flow: shop
properties: {region: EU}
nodes:
  In: {type: MQInput, queue: IN, domain: XMLNSC, to: {out: Do, catch: Errors}}
  Do:
    type: Compute
    statements: |
      SET OutputRoot = InputRoot;
      SET OutputRoot.XMLNSC.o.n = CAST(InputRoot.XMLNSC.o.n AS INTEGER) + 1;
    to: Ask
  Ask: {type: Passthrough, to: Out}
  Out: {type: MQOutput, queue: OUT}
  Errors: {type: MQOutput, queue: ERRORS}
"""


def verdicts(tmp_path: Path, cases: str, *, flow: str = FLOW, only: str = "") -> list[CaseVerdict]:
    (tmp_path / "shop.yaml").write_text(flow)
    file = tmp_path / "shop.test.yaml"
    file.write_text(cases)
    return list(run_test_file(read_test_file(file), only=only))


def problems(tmp_path: Path, case: str, **options: str) -> list[str]:
    lines = "".join(f"    {line}\n" for line in case.splitlines())
    (verdict,) = verdicts(tmp_path, f"cases:\n  it works:\n{lines}", **options)
    return verdict.problems


FEED = "feed: {to: IN, body: <o><n>1</n></o>}\n"


@pytest.mark.parametrize(
    "expect",
    [
        "expect: {OUT: <o><n>2</n></o>}",
        "expect: {OUT: {xml: '<o> <n>2</n> </o>'}}",
        "expect: {OUT: {hex: 3c6f3e3c6e3e323c2f6e3e3c2f6f3e}}",
        "expect: {OUT: {tree: {XMLNSC.o.n: 2}, persistent: no}}",
        "expect: {OUT: }",
        "path: [In.out, Do.out, Ask.out, Out]",
        "expect: {OUT: {}}\nothers: yes",
        "failures: []",
    ],
)
def test_a_case_that_holds_has_no_problems(tmp_path: Path, expect: str) -> None:
    assert problems(tmp_path, FEED + expect) == []


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ("expect: {OUT: <o><n>3</n></o>}", "on OUT: from byte 6 on"),
        ("expect: {OUT: {xml: <o><n>3</n></o>}}", "on OUT: o/n: expected '3', found '2'"),
        ("expect: {OUT: {tree: {XMLNSC.o.n: 3}}}", "on OUT: XMLNSC.o.n: expected 3, found '2'"),
        ("expect: {OUT: {json: {a: 1}}}", "on OUT: what was found is no JSON"),
        ("expect: {OUT: [{}, {}]}", "expected 2 messages, found 1"),
        ("expect: {ERRORS: {}}", "not expected on OUT"),
        ("expect: nothing", "not expected on OUT"),
        ("failures: [CastFailed]", "failures: expected CastFailed"),
        ("published: {a: {}}", "published on a: expected 1 messages, found 0"),
        ("path: [In.out]", "path: expected In.out"),
        ("trace: [hello]", "trace: expected 'hello'"),
        ("expect: {OUT: {priority: 9}}", "priority: expected 9, found 0"),
        ("expect: {OUT: {properties: {a: 1}}}", "property a: expected 1"),
    ],
)
def test_a_case_that_does_not_hold_tells_why_and_which_way_the_message_took(
    tmp_path: Path, expect: str, told: str
) -> None:
    found = problems(tmp_path, FEED + expect)
    assert any(told in problem for problem in found), found
    assert "its way: In.out → Do.out → Ask.out → Out" in found


def test_an_error_that_nobody_expects_is_a_problem(tmp_path: Path) -> None:
    found = problems(tmp_path, "feed: {to: IN, body: <o><n>x</n></o>}")
    assert found[0] == "it failed, and the case does not say that it should"
    assert any(problem.startswith("error at In: CastFailed") for problem in found)


@pytest.mark.parametrize("word", ["CastFailed", "X03", "cannot become INTEGER"])
def test_an_expected_error_is_named_by_class_code_or_text(tmp_path: Path, word: str) -> None:
    case = f"feed: {{to: IN, body: <o><n>x</n></o>}}\nfailures: [{word}]\nexpect: {{ERRORS: <o><n>x</n></o>}}"
    assert problems(tmp_path, case) == []


def test_bodies_come_from_files_json_and_blocks(tmp_path: Path) -> None:
    (tmp_path / "order.xml").write_text("<o><n>4</n></o>")
    flow = "flow: shop\nnodes:\n  In: {type: MQInput, queue: IN, to: Out}\n  Out: {type: MQOutput, queue: OUT}\n"
    cases = """
cases:
  file: {feed: {to: IN, file: order.xml}, expect: {OUT: <o><n>4</n></o>}}
  json: {feed: {to: IN, json: {a: [1, yes]}}, expect: {OUT: {json: {a: [1, yes]}}}}
  block:
    feed:
      to: IN
      body: |
        line one
        line two
    expect: {OUT: {hex: 6c696e65206f6e650a6c696e652074776f}}
"""
    assert [verdict.problems for verdict in verdicts(tmp_path, cases, flow=flow)] == [[], [], []]


def test_the_descriptor_can_be_said(tmp_path: Path) -> None:
    said = 'persistent: yes, priority: 7, type: request, correlation_id: order-7, reply_to: "123", properties: {a: EU}'
    case = f"feed: {{to: IN, body: <o><n>1</n></o>, {said}}}\nexpect: {{OUT: {{{said}}}}}"
    assert problems(tmp_path, case) == []
    assert problems(tmp_path, case.replace("order-7", "order-8", 1)) != []


def test_stubs_answer_or_fail(tmp_path: Path) -> None:
    cases = """
stubs: {Ask: {json: {ok: true}}}
cases:
  answers: {feed: {to: IN, body: <o><n>1</n></o>}, expect: {OUT: {json: {ok: true}}}}
  fails:
    stubs: {Ask: {raise: no answer, number: 3150}}
    feed: {to: IN, body: <o><n>1</n></o>}
    expect: {ERRORS: <o><n>1</n></o>}
    failures: [no answer]
"""
    assert [verdict.problems for verdict in verdicts(tmp_path, cases)] == [[], []]


def test_steps_share_a_world_and_cases_do_not(tmp_path: Path) -> None:
    flow = """
flow: shop
nodes:
  In: {type: MQInput, queue: IN, domain: XMLNSC, to: Count}
  Count: {type: Database, data_source: SHOP, statements: "INSERT INTO Database.seen (n) VALUES (1);", to: Tell}
  Tell:
    type: Compute
    data_source: SHOP
    statements: SET OutputRoot.XMLNSC.n = THE(SELECT COUNT(S.n) FROM Database.seen AS S);
    to: Out
  Out: {type: MQOutput, queue: OUT}
"""
    cases = """
databases: {SHOP: CREATE TABLE seen (n INTEGER)}
cases:
  one: {feed: {to: IN, body: <a/>}, expect: {OUT: <n>1</n>}}
  two:
    steps:
      - {feed: {to: IN, body: <a/>}, expect: {OUT: <n>1</n>}}
      - {pass_time: 5}
      - {feed: {to: IN, body: <a/>}, expect: {OUT: <n>3</n>}}
"""
    first, second = verdicts(tmp_path, cases, flow=flow)
    assert first.problems == []
    assert second.problems[0].startswith("step 3: on OUT")


def test_queues_time_and_messages_beforehand_can_be_set(tmp_path: Path) -> None:
    flow = """
flow: shop
nodes:
  In: {type: MQInput, queue: IN, domain: XMLNSC, to: Get}
  Get: {type: MQGet, queue: PARTS, domain: XMLNSC, to: {out: Stamp, noMessage: Fail}}
  Fail: {type: Throw, text: no part}
  Stamp:
    type: Compute
    statements: |
      SET OutputRoot = InputRoot;
      SET OutputRoot.XMLNSC.part.at = CAST(CURRENT_GMTDATE AS CHARACTER FORMAT 'yyyy-MM-dd');
    to: Out
  Out: {type: MQOutput, queue: OUT}
"""
    cases = """
now: 2026-01-31T12:00:00Z
queues: {IN: {threshold: 2, backout_queue: BACK}}
cases:
  there: {put: {PARTS: {body: <part/>}}, feed: {to: IN, body: <a/>}, expect: {OUT: <part><at>2026-01-31</at></part>}}
  missing: {feed: {to: IN, body: <a/>, persistent: yes}, expect: {BACK: <a/>}, failures: [no part]}
"""
    assert [verdict.problems for verdict in verdicts(tmp_path, cases, flow=flow)] == [[], []]


def test_only_the_cases_that_are_named_run(tmp_path: Path) -> None:
    cases = "cases:\n  first: {feed: {to: IN, body: <o/>}}\n  second: {feed: {to: IN, body: <o/>}}\n"
    assert [verdict.case for verdict in verdicts(tmp_path, cases, only="SEC")] == ["second"]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 0, "empty"),
        ("- a", 1, "cannot be a list"),
        ("flow: x.yaml", 1, "no cases"),
        ("casse: {}", 1, "did you mean cases?"),
        ("cases:\n  a:\n    fed: {}", 3, "did you mean feed?"),
        ("cases:\n  a:\n    feed: {}", 3, "where the message comes in"),
        ("cases:\n  a:\n    feed: {to: IN, body: x, json: {}}", 3, "both a body"),
        ("cases:\n  a:\n    feed: {to: IN, hex: xyz}", 3, "no hexadecimal digits"),
        ("cases:\n  a:\n    feed: {to: IN, file: nothing.xml}", 3, "nothing.xml"),
        ("cases:\n  a:\n    feed: {to: IN, type: letter}", 3, "LETTER is no type"),
        ("cases:\n  a:\n    feed: {to: IN, persistant: yes}", 3, "did you mean persistent?"),
        ("cases:\n  a:\n    pass_time: soon", 3, "no seconds"),
        ("cases:\n  a:\n    expect: {}", 3, "nothing is done"),
        ("cases:\n  a: {feed: {to: IN}, pass_time: 3}", 2, "at once"),
        ("cases:\n  a:\n    feed: {to: IN}\n    expect: {OUT: {xlm: x}}", 4, "did you mean xml?"),
        ("now: soon\ncases:\n  a: {feed: {to: IN}}", 1, "no time"),
        ("cases: &x\n  a: *x", 1, "anchor"),
        ("cases: [", 2, "no YAML"),
    ],
)
def test_what_is_wrong_with_a_test_file_is_told_with_its_place(tmp_path: Path, text: str, line: int, told: str) -> None:
    file = tmp_path / "x.test.yaml"
    file.write_text(text)
    with pytest.raises(FlowTestInvalid) as caught:
        read_test_file(file)
    fitting = [where for where, problem, advice in caught.value.mistakes if told in problem + advice]
    assert fitting, caught.value
    assert fitting[0].startswith(f"{file}:{line}" if line else str(file))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "x.test.yaml"
    file.write_text("cases:\n  a: {fed: 1}\n  b: {feed: {to: IN, boddy: x}}\n")
    with pytest.raises(FlowTestInvalid) as caught:
        read_test_file(file)
    assert len(caught.value.mistakes) >= 3


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    file = tmp_path / "x.test.yaml"
    file.write_bytes(b"cases:\n  \xff: 1\n")
    with pytest.raises(FlowTestInvalid, match=r":2.*0xff is no UTF-8"):
        read_test_file(file)


def test_a_flow_that_is_wrong_itself_is_told_as_such(tmp_path: Path) -> None:
    (verdict,) = verdicts(tmp_path, "cases:\n  a: {feed: {to: IN}}\n", flow=FLOW.replace("Passthrough", "Passtrough"))
    assert "Passtrough" in verdict.problems[0]
    with pytest.raises(FlowInvalid):
        verdicts(tmp_path, "cases:\n  a: {feed: {to: IN}}\n", flow="flow: [")


def test_a_queue_that_the_flow_does_not_read_is_a_problem_of_the_case(tmp_path: Path) -> None:
    assert "In (IN)" in problems(tmp_path, "feed: {to: ELSEWHERE}")[0]
