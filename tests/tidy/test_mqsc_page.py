# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from entrepot.mqsc.commands import VERBS
from entrepot.mqsc.display import OPERATORS
from entrepot.mqsc.forms import Switch
from entrepot.mqsc.keywords import LATER_KINDS, OBJECT_KINDS, STATUS_KEYWORDS, ObjectKind

from .pages import DOCS, blocks, table_rows

PAGE = DOCS / "MQSC.md"
KINDS = pytest.mark.parametrize("kind", OBJECT_KINDS.values(), ids=lambda kind: kind.word)


def _section(word: str) -> str:
    (section,) = re.findall(rf"^### {word}\b.*?(?=^##)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(section)


def _rows(section: str) -> dict[str, str]:
    """Keyword and default as the page has them."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {cells[0]: cells[2] for cells in rows[2:]}


def _expected(kind: ObjectKind) -> dict[str, str]:
    definition = kind.definition(name="X")
    expected = {}
    for attribute in kind.attributes:
        value = getattr(definition, attribute.field)
        if isinstance(attribute.form, Switch):
            keyword, shown = f"{attribute.keyword}, {attribute.form.off}", attribute.write(value)
        else:
            keyword, shown = attribute.keyword, str(attribute.form.show(value) or attribute.form.show(value) == 0)
            shown = "" if shown == "False" else str(attribute.form.show(value))
        if attribute.synonyms:
            keyword += f" ({', '.join(attribute.synonyms)})"
        expected[keyword] = f"`{shown}`" if shown else "none"
    return expected


@KINDS
def test_page_lists_the_keywords_of_a_kind_with_their_defaults(kind: ObjectKind) -> None:
    said = _rows(_section(kind.word))
    if kind.word == "QMODEL":  # the page says that it takes all keywords of QLOCAL
        said = {**_rows(_section("QLOCAL")), **said}
    assert said == _expected(kind)


@KINDS
def test_page_names_the_synonyms_of_a_kind(kind: ObjectKind) -> None:
    head = _section(kind.word).splitlines()[0]
    assert head == f"### {kind.word}" + (f" ({', '.join(kind.synonyms)})" if kind.synonyms else "")


@KINDS
def test_page_names_what_is_shown_and_not_set(kind: ObjectKind) -> None:
    assert [keyword for keyword in kind.status if keyword not in _section(kind.word)] == []


def test_page_lists_the_commands() -> None:
    said = {cells[0]: (cells[1], cells[3]) for cells in table_rows(PAGE, 4) if cells[0] in VERBS}
    true = {name: (", ".join(verb.synonyms) or "–", ", ".join(verb.options) or "–") for name, verb in VERBS.items()}
    assert said == true


def test_page_lists_what_is_accepted_without_effect() -> None:
    queues, manager, others = (set(block.split()) for block in blocks(PAGE, "text"))
    true = {kind.word: set(kind.without_effect) for kind in OBJECT_KINDS.values()}
    said = {"QMGR": manager, "PROCESS": others - {"NLTYPE"}, "NAMELIST": others}
    said |= {kind.word: queues for kind in OBJECT_KINDS.values() if kind.is_queue}
    assert said == true


def test_page_names_operators_status_and_later_kinds() -> None:
    words = set(re.findall(r"\b[A-Z]+\b", PAGE.read_text()))
    assert {*OPERATORS, *STATUS_KEYWORDS, *LATER_KINDS} - words == set()
