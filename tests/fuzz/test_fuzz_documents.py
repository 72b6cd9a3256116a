# SPDX-License-Identifier: Apache-2.0
"""A small campaign of documents.py, and that it would find what it looks for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from entrepot.compiled import compiled
from entrepot.models.tree import Folder
from entrepot.models.xml import XMLNSC

from .documents import Documents, Tally, compare, fuzz
from .finding import Finding

DOCUMENTS = 20_000
SHARE = DOCUMENTS // 4

pytestmark = pytest.mark.skipif(compiled("tape") is None, reason="there is no compiled tape")


@pytest.mark.parametrize("seed", range(4))
def test_what_the_tape_takes_lxml_takes_and_reads_alike(seed: int) -> None:
    tally = fuzz(seed, SHARE)
    assert tally.documents == SHARE
    for domain, taken in tally.taken.items():
        assert taken > SHARE / 10, f"what is taken is what is tested: {domain}"


@pytest.mark.torture
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("seed", range(1000, 1004))
def test_a_million_documents_are_read_alike(seed: int) -> None:
    assert fuzz(seed, 250_000).documents == 250_000


def test_the_same_seed_makes_the_same_documents() -> None:
    first, second, other = Documents(1), Documents(1), Documents(2)
    documents = [first.next() for _ in range(50)]
    assert documents == [second.next() for _ in range(50)]
    assert documents != [other.next() for _ in range(50)]


def test_another_tree_and_a_document_that_lxml_refuses_are_findings() -> None:
    tape = compiled("tape")

    def of_another_body(folder: Folder, compact: bool) -> object:
        return tape.document_of(Folder(XMLNSC, b"<a>2</a>"), compact)

    body = b"<a>1</a>"
    compare(body, tape, Tally())
    with pytest.raises(Finding, match="refuses"):
        compare(b"<a>1</b>", SimpleNamespace(document_of=of_another_body), Tally())
