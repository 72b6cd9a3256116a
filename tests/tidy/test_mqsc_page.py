# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from entrepot.server.mqsc.commands import VERBS
from entrepot.server.mqsc.display import OPERATORS
from entrepot.server.mqsc.forms import Switch
from entrepot.server.mqsc.keywords import OBJECT_KINDS, STATUS_KEYWORDS
from entrepot.server.mqsc.object_kind import ObjectKind
from entrepot.server.mqsc.running import RUNNING
from entrepot.server.mqsc.security_keywords import (
    ADMINISTRATION_AUTHORITIES,
    AUTHORITIES_WITHOUT_EFFECT,
    AUTHORITY_GROUPS,
    MESSAGING_AUTHORITIES,
)
from folding import for_each

from .pages import DOCS, blocks, table_rows

PAGE = DOCS / "MQSC.md"
KINDS = for_each("kind", OBJECT_KINDS.values(), ids=lambda kind: kind.word)


def _section(word: str) -> str:
    (section,) = re.findall(rf"^### {word}\b.*?(?=^##)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(section)


def _cells(section: str) -> list[list[str]]:
    """The rows of the table of keywords: four columns, without head and rule."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [cells for cells in rows[2:] if len(cells) == 4]


def _rows(section: str) -> dict[str, str]:
    """Keyword and default as the page has them."""
    return {cells[0]: cells[2] for cells in _cells(section)}


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
        if attribute.required:
            expected[keyword] = "needed"
    return expected


@KINDS
def test_page_lists_the_keywords_of_a_kind_with_their_defaults(kind: ObjectKind) -> None:
    said = _rows(_section(kind.word))
    if kind.word == "QMODEL":  # the page says that it takes all keywords of QLOCAL that can be set
        local = {keyword: row for keyword, row in _rows(_section("QLOCAL")).items() if keyword != "OWNER"}
        said = {**local, **said}
    assert said == _expected(kind)


@KINDS
def test_page_names_the_synonyms_of_a_kind(kind: ObjectKind) -> None:
    head = _section(kind.word).splitlines()[0]
    assert head == f"### {kind.word}" + (f" ({', '.join(kind.synonyms)})" if kind.synonyms else "")


@KINDS
def test_page_names_what_is_shown_and_not_set(kind: ObjectKind) -> None:
    assert [keyword for keyword in kind.status if keyword not in _section(kind.word)] == []


@KINDS
def test_page_says_which_types_have_a_keyword(kind: ObjectKind) -> None:
    meanings = {cells[0]: cells[3] for cells in _cells(_section(kind.word))}
    for attribute in kind.attributes:
        if attribute.variants:
            assert meanings[attribute.keyword].startswith(f"{', '.join(attribute.variants)}: ")


@KINDS
def test_page_names_what_can_have_one_value_only(kind: ObjectKind) -> None:
    assert [keyword for keyword in kind.fixed if keyword not in _section(kind.word)] == []
    assert [keyword for keyword in kind.selectors if keyword not in _section(kind.word)] == []


def test_page_lists_the_authorities() -> None:
    rows = [line.strip("|").split("|") for line in _section("AUTHREC").splitlines() if line.count("|") == 4]
    said = {cells[0].strip(): (cells[1].strip(), cells[2].strip()) for cells in rows[2:]}
    true = {
        kind: (", ".join(MESSAGING_AUTHORITIES[kind]) or "–", ", ".join(ADMINISTRATION_AUTHORITIES[kind]) or "–")
        for kind in MESSAGING_AUTHORITIES
    }
    assert said == true
    words = set(re.findall(r"\b[A-Z]+\b", _section("AUTHREC")))
    assert {*AUTHORITIES_WITHOUT_EFFECT, *AUTHORITY_GROUPS} - words == set()


def test_page_lists_the_keywords_of_what_runs() -> None:
    nouns = {noun + (f" ({', '.join(run.synonyms)})" if run.synonyms else ""): run for noun, run in RUNNING.items()}
    said = {cells[0]: set(cells[1].split(", ")) for cells in table_rows(PAGE, 2) if cells[0] in nouns}
    assert said == {noun: set(running.keywords) for noun, running in nouns.items()}


def test_page_lists_the_commands() -> None:
    said = {cells[0]: tuple(cells[1:]) for cells in table_rows(PAGE, 4) if cells[0] in VERBS}
    true = {
        name: tuple(", ".join(words) or "–" for words in (verb.synonyms, verb.nouns, verb.options))
        for name, verb in VERBS.items()
    }
    assert said == true


def test_page_lists_what_is_accepted_without_effect() -> None:
    queues, manager, others, *own = (set(block.split()) for block in blocks(PAGE, "text"))
    true = {kind.word: set(kind.without_effect) for kind in OBJECT_KINDS.values()}
    said = {"QMGR": manager, "PROCESS": others - {"NLTYPE"}, "NAMELIST": others}
    said |= dict(zip(("CHANNEL", "LISTENER", "TOPIC", "SUB", "CHLAUTH", "AUTHREC"), own, strict=True))
    said |= {kind.word: queues for kind in OBJECT_KINDS.values() if kind.is_queue}
    assert said == true


def test_page_names_operators_and_status() -> None:
    words = set(re.findall(r"\b[A-Z]+\b", PAGE.read_text()))
    assert {*OPERATORS, *STATUS_KEYWORDS} - words == set()
