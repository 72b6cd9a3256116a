# SPDX-License-Identifier: Apache-2.0
"""Nine tenths of what programs use, by how often they use it, are supported, and the page names the rest.

`frequencies.yaml` says how often, and has a snippet for each construct.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from entrepot.errors import EsqlInvalid, EsqlRunError
from entrepot.models.message_sets import load_set, register_set
from folding import for_each

from .running import Outcome, body_of, module_of, run_case, shown

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "ESQL.md"
CONTENT: dict[str, Any] = yaml.safe_load((HERE / "frequencies.yaml").read_text())
GROUPS: dict[str, list[dict[str, Any]]] = {name: group for name, group in CONTENT.items() if isinstance(group, list)}
ENTRIES = [(name, entry) for name, group in GROUPS.items() for entry in group]
SHARE_MIN = 0.90

SITUATION = {
    "body": CONTENT["message"],
    "database": CONTENT["database"],
    "labels": {"ExecutionGroupLabel": "default", "MessageFlowLabel": "Orders"},
    "local_environment_in": {"Variables.hop": 3},
    "exception_list_in": {"RecoverableException.Number": 2230},
}

register_set(load_set(HERE / "corpus" / "models" / "branch.yaml"))


@cache
def _refusal(esql: str, allow_eval: bool) -> EsqlInvalid | None:
    try:
        module_of(esql, allow_eval=allow_eval)
    except EsqlInvalid as error:
        return error
    return None


def _refused(entry: dict[str, Any]) -> EsqlInvalid | None:
    return _refusal(entry["esql"], entry.get("allow_eval", False))


def _share(entries: list[dict[str, Any]]) -> float:
    used = sum(entry["uses"] for entry in entries)
    return sum(entry["uses"] for entry in entries if _refused(entry) is None) / used


EACH = for_each("entry", [pytest.param(entry, id=f"{name}-{entry['construct']}") for name, entry in ENTRIES])


@EACH
def test_construct_is_supported_or_refused_as_the_list_says(entry: dict[str, Any]) -> None:
    refusal = _refused(entry)
    if "refused" not in entry:
        assert refusal is None, str(refusal)
        return
    assert refusal is not None, "it is supported now: take `refused` out, and the row out of docs/ESQL.md"
    file, line, column, problem, excerpt = refusal.mistakes[0]
    assert (file, entry["refused"] in problem) == ("<snippet>", True), problem
    source = entry["esql"].splitlines()[line - 1]
    assert entry["refused"].upper() in source.upper(), f"line {line} does not have it"
    assert 1 <= column <= len(source)
    assert excerpt.splitlines()[0].strip() in source


@for_each("what", CONTENT["limits"])
def test_small_print_is_refused_when_a_program_is_compiled(what: str) -> None:
    entry = CONTENT["limits"][what]
    refusal = _refused(entry)
    assert refusal is not None, f"{what}: supported now; take it out here and out of docs/ESQL.md"
    assert entry["refused"] in refusal.mistakes[0][3]


RUN = [pytest.param(entry, id=f"{name}-{entry['construct']}") for name, entry in ENTRIES if "refused" not in entry]


@for_each("entry", RUN)
def test_snippet_gives_what_the_language_says(entry: dict[str, Any]) -> None:
    expected = {
        key: entry[key] for key in ("gives", "body", "sent", "rows", "says", "reports", "answer") if key in entry
    }
    assert expected, "a snippet says what it gives"
    outcome = Outcome()
    found: dict[str, Any] = {}
    try:
        run_case(module_of(entry["esql"], allow_eval=entry.get("allow_eval", False)), SITUATION, outcome)
    except EsqlRunError as error:
        assert "says" in entry, str(error)
        found["says"] = entry["says"] if entry["says"] in error.what else error.what
    if "gives" in entry:
        found["gives"] = shown(outcome.environment.get("answer"))
    if "body" in entry:
        found["body"] = body_of(outcome.outputs[-1][1])
    if "sent" in entry:
        found["sent"] = [terminal for terminal, _ in outcome.outputs]
    if "rows" in entry:
        assert outcome.connection is not None
        found["rows"] = {query: [list(row) for row in outcome.connection.execute(query)] for query in entry["rows"]}
    if "reports" in entry:
        found["reports"] = [list(report) for report in outcome.reports]
    if "answer" in entry:
        found["answer"] = outcome.answer
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


@for_each("group", [name for name, entries in GROUPS.items() if any(entry["uses"] for entry in entries)])
def test_nine_tenths_of_each_group_are_supported_by_use_count(group: str) -> None:
    assert _share(GROUPS[group]) >= SHARE_MIN


def test_nine_tenths_of_everything_are_supported_by_use_count() -> None:
    assert _share([entry for _, entry in ENTRIES]) >= SHARE_MIN


# --- the page ----------------------------------------------------------------------------------


def _rows_below(heading: str) -> dict[str, list[str]]:
    section = PAGE.read_text().split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [
        [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return {row[0]: row for row in rows[2:]}


def test_page_names_exactly_what_is_not_supported() -> None:
    said = {construct: int(row[1]) for construct, row in _rows_below("## Not supported").items()}
    found = {entry["construct"]: entry["uses"] for _, entry in ENTRIES if _refused(entry) is not None}
    assert said == found


def test_page_gives_the_shares_that_the_snippets_have() -> None:
    said = {row[0]: row[2] for row in _rows_below("## What is there").values()}
    found = {name.replace("_", " "): f"{_share(group) * 100:.1f} %" for name, group in GROUPS.items()}
    found["all"] = f"{_share([entry for _, entry in ENTRIES]) * 100:.1f} %"
    assert said == found


def test_program_and_mistake_that_the_page_shows_are_true() -> None:
    text = PAGE.read_text()
    program = text.split("```sql\n", 1)[1].split("```", 1)[0]
    case = {
        "body": "<Order><Line><Sku>b1</Sku></Line><Line><Sku>c2</Sku></Line></Order>",
        "properties": {"currency": "GBP"},
    }
    ((_, output),) = run_case(module_of(program), case).outputs
    assert body_of(output) == '<Bill currency="GBP"><Sku>b1</Sku><Sku>c2</Sku></Bill>'
    with pytest.raises(EsqlInvalid) as invalid:
        module_of("DECLARE total DECIMAL 1;\nSET OutputRoot.XMLNSC.Bill.Sum = Total;", "bill.esql")
    assert invalid.value.what.split("\n", 1)[1] in text
