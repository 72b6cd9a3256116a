# SPDX-License-Identifier: Apache-2.0
"""Whatever tree a domain can have is read back from its bytes; whatever was written is written again as it is."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.models.domains import find_domain
from entrepot.models.element_types import (
    NAME,
    XML_ATTRIBUTE,
    XML_COMMENT,
    XML_CONTENT,
    XML_PROCESSING_INSTRUCTION,
    XMLNSC_ATTRIBUTE,
    XMLNSC_CDATA_FIELD,
    XMLNSC_FIELD,
)
from entrepot.models.tree import Element, Folder

CHARACTERS = st.characters(
    codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff", include_characters="\t\n\r"
)
TEXTS = st.text(CHARACTERS, max_size=20)
NAMES = st.sampled_from(["a", "b", "c", "Name-1", "_x.y", "\xe9t\xe9"])
URIS = st.sampled_from(["", "{urn:one}", "{urn:two}"])
KEYS = st.builds(str.__add__, URIS, NAMES)
SAFE = st.text(st.sampled_from("abc <>&?!\u20ac"), max_size=10).filter(lambda text: "?>" not in text)


def folder(body: bytes | None, domain: str) -> Folder:
    found = find_domain(domain)
    assert found is not None
    return Folder(found, body)


def shape(element: Element, known: frozenset[str] = frozenset()) -> Any:
    """Without the namespace declarations that writing had to add."""
    children = [shape(child) for child in element.children if "xmlns" not in child.key]
    return (element.key, element.kind, element.value or "", *children)


def built(tree: Any) -> Element:
    key, kind, value, *children = tree
    element = Element(key, value, kind)
    for child in children:
        element.append(built(child))
    return element


def attributes(kind: int, keys: st.SearchStrategy[str]) -> Any:
    return st.dictionaries(keys, TEXTS, max_size=3).map(
        lambda found: [(key, kind, value) for key, value in found.items()]
    )


COMPACT: Any = st.recursive(
    st.builds(
        lambda key, kind, value, of: (key, kind if value else XMLNSC_FIELD, value, *of),
        KEYS,
        st.sampled_from([XMLNSC_FIELD, XMLNSC_CDATA_FIELD]),
        TEXTS,
        attributes(XMLNSC_ATTRIBUTE, KEYS),
    ),
    lambda below: st.builds(
        lambda key, of, children: (key, NAME, "", *of, *children),
        KEYS,
        attributes(XMLNSC_ATTRIBUTE, KEYS),
        st.lists(below, min_size=1, max_size=5),
    ),
    max_leaves=15,
)


def mixed(keys: st.SearchStrategy[str]) -> Any:
    """Texts never stand side by side, and an element with nothing but text holds it itself."""
    between = st.one_of(
        st.builds(lambda text: ("", XML_COMMENT, text), SAFE),
        st.builds(lambda text: ("pi", XML_PROCESSING_INSTRUCTION, text.strip()), SAFE),
    )
    texts = st.builds(lambda text: ("", XML_CONTENT, text), TEXTS.filter(bool))
    leaf = st.builds(lambda key, value, of: (key, NAME, value, *of), keys, TEXTS, attributes(XML_ATTRIBUTE, keys))

    def folded(below: Any) -> Any:
        pairs = st.tuples(st.one_of(below, between), st.one_of(st.none(), texts))
        return st.builds(
            lambda key, of, first, rest: (
                key,
                NAME,
                "",
                *of,
                *([first] if first else []),
                *(part for pair in rest for part in pair if part),
            ),
            keys,
            attributes(XML_ATTRIBUTE, keys),
            st.one_of(st.none(), texts),
            st.lists(pairs, min_size=1, max_size=4),
        )

    return st.recursive(leaf, folded, max_leaves=12)


def check(domain: str, tree: Any) -> None:
    new = folder(None, domain)
    new.append(built(tree))
    body = new.render()
    read = folder(body, domain)
    assert [shape(child) for child in read.children] == [tree]
    again = folder(body, domain)
    again.changed(structure=True)
    assert again.render() == body
    found = folder(body, domain)
    walk(found)
    found.changed(structure=True)
    assert found.render() == body
    assert [shape(child) for child in found.copy().children] == [tree]


def walk(element: Element) -> None:
    for child in element.children:
        assert child.parent is element
        assert element.first(child.key) is element.all(child.key)[0]
        walk(child)


@settings(max_examples=40)
@given(tree=COMPACT)
def test_compact_trees_come_back(tree: Any) -> None:
    check("XMLNSC", tree)


@settings(max_examples=40)
@given(tree=mixed(KEYS))
def test_xmlns_trees_come_back(tree: Any) -> None:
    check("XMLNS", tree)


@settings(max_examples=40)
@given(tree=mixed(st.sampled_from(["a", "b", "p:a", "p:b", "q:c"])))
def test_trees_of_the_old_domain_come_back(tree: Any) -> None:
    check("XML", tree)


@settings(max_examples=40)
@given(tree=COMPACT, text=TEXTS, data=st.data())
def test_a_changed_value_is_written_like_a_changed_tree(tree: Any, text: str, data: st.DataObject) -> None:
    new = folder(None, "XMLNSC")
    new.append(built(tree))
    body = new.render()
    steps = data.draw(st.lists(st.integers(0, 4), max_size=3))
    values, structure = folder(body, "XMLNSC"), folder(body, "XMLNSC")
    for read in (values, structure):
        place = read.children[0]
        for step in steps:
            inside = [child for child in place.children if "xmlns" not in child.key]
            if inside:
                place = inside[step % len(inside)]
        place.set_value(text)
    structure.changed(structure=True)
    assert values.render() == structure.render()


@settings(max_examples=80)
@given(body=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    refused_or_read(body)


@settings(max_examples=80)
@given(
    body=st.text(alphabet="<a/>b x='&;:!-[]?CDAT\"=", max_size=40),
    wrapped=st.booleans(),
)
def test_any_markup_is_read_or_refused(body: str, wrapped: bool) -> None:
    refused_or_read((f"<a>{body}</a>" if wrapped else body).encode())


def refused_or_read(body: bytes) -> None:
    from entrepot.errors.flows import ModelError

    for domain in ("XMLNSC", "XMLNS", "XML"):
        for ccsid in (1208, 500, 1200):
            read = folder(body, domain)
            read.ccsid = ccsid
            try:
                walk(read)
            except ModelError:
                continue
            read.changed(structure=True)
            once = read.render()
            again = folder(once, domain)
            again.ccsid = ccsid
            assert [shape(child) for child in again.children] == [shape(child) for child in read.children]
