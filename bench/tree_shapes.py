# SPDX-License-Identifier: Apache-2.0
"""What each way of holding a message tree costs: decision 16 rests on this table.

    python bench/tree_shapes.py

Each shape reads a message, finds one field, sets it and writes the message; and
once more with every field looked at. The yardstick is the function one would write by hand
with lxml. Times are microseconds of processor time, the best of many rounds in
which all shapes take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from xml.parsers import expat

from lxml import etree

from entrepot.models.tree import Element, Folder
from entrepot.models.xml import XMLNSC
from entrepot.models.xml.characters import content_text

ROUNDS = 40
SECONDS_PER_ROUND = 0.004
Work = Callable[[], object]


def flat(body_bytes: int) -> tuple[bytes, tuple[str, ...]]:
    """Thirty fields and padding in a last one; the field in the middle is wanted."""
    fields = b"".join(b"<field%02d>value %d</field%02d>" % (n, n, n) for n in range(30))
    padding = b"x" * max(body_bytes - len(fields) - 22, 0)
    return b"<doc>" + fields + b"<pad>" + padding + b"</pad></doc>", ("doc", "field15")


def repeating() -> tuple[bytes, tuple[str, ...]]:
    item = b"<item><sku>A%d</sku><qty>%d</qty><price>1.50</price><text>some text</text></item>"
    return b"<doc><id>7</id>" + b"".join(item % (n, n) for n in range(20)) + b"</doc>", ("doc", "item", "qty")


# --- trees that are made at once -----------------------------------------------------------------------


def from_lxml(source: etree._Element) -> Element:
    element = Element(source.tag, None if len(source) else source.text or "")
    if len(source):
        element.fill([from_lxml(child) for child in source])
    return element


def from_element_tree(source: ElementTree.Element) -> Element:
    element = Element(source.tag, None if len(source) else source.text or "")
    if len(source):
        element.fill([from_element_tree(child) for child in source])
    return element


def from_expat(body: bytes) -> Element:
    top = Element("")
    open_elements = [top]
    children: list[list[Element]] = [[]]

    def start(name: str, attributes: dict[str, str]) -> None:
        del attributes
        element = Element(name, "")
        children[-1].append(element)
        open_elements.append(element)
        children.append([])

    def end(name: str) -> None:
        del name
        inside = children.pop()
        element = open_elements.pop()
        if inside:
            element.value = None
            element.fill(inside)

    def text(characters: str) -> None:
        open_elements[-1].value += characters

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.Parse(body, True)
    return children[0][0]


def written(element: Element) -> str:
    if not element.children:
        return f"<{element.key}>{content_text(element.value)}</{element.key}>"
    return f"<{element.key}>{''.join([written(child) for child in element.children])}</{element.key}>"


def eager(make: Callable[[bytes], Element]) -> Callable[[bytes, tuple[str, ...], bool], object]:
    def work(body: bytes, keys: tuple[str, ...], everything: bool) -> object:
        del everything
        place = make(body)
        document = place
        for key in keys[1:]:
            place = place.first(key)  # type: ignore[assignment]
        place.set_value("new")
        return written(document).encode()

    return work


# --- trees of lxml --------------------------------------------------------------------------------------


def by_hand(body: bytes, keys: tuple[str, ...], everything: bool) -> object:
    root = etree.fromstring(body)
    if everything:
        for element in root.iter():
            _ = element.tag, element.text
    root.find("/".join(keys[1:])).text = "new"
    return etree.tostring(root)


class Handle:
    """Nothing but lxml below: each look at a place makes a new handle for it."""

    __slots__ = ("source",)

    def __init__(self, source: etree._Element) -> None:
        self.source = source

    def first(self, key: str) -> Handle:
        return Handle(next(self.source.iterchildren(key)))

    def children(self) -> list[Handle]:
        return [Handle(child) for child in self.source]


def handles(body: bytes, keys: tuple[str, ...], everything: bool) -> object:
    root = place = Handle(etree.fromstring(body))
    if everything:
        look_at_handles(root)
    for key in keys[1:]:
        place = place.first(key)
    place.source.text = "new"
    return etree.tostring(root.source)


def look_at_handles(handle: Handle) -> None:
    for child in handle.children():
        _ = child.source.tag, child.source.text
        look_at_handles(child)


def lazy(body: bytes, keys: tuple[str, ...], everything: bool) -> object:
    folder = Folder(XMLNSC, body)
    if everything:
        look_at(folder)
    place: Element = folder
    for key in keys:
        place = place.first(key)  # type: ignore[assignment]
    place.set_value("new")
    return folder.render()


def look_at(element: Element) -> None:
    for child in element.children:
        _ = child.key, child.value
        look_at(child)


SHAPES: dict[str, Callable[[bytes, tuple[str, ...], bool], object]] = {
    "by hand with lxml": by_hand,
    "own elements at once, lxml": eager(lambda body: from_lxml(etree.fromstring(body))),
    "own elements at once, expat": eager(from_expat),
    "own elements at once, ElementTree": eager(lambda body: from_element_tree(ElementTree.fromstring(body))),
    "handles on lxml": handles,
    "own elements when looked at, lxml": lazy,
}


def best_us(works: dict[str, Work]) -> dict[str, float]:
    best = dict.fromkeys(works, float("inf"))
    counts = {}
    for name, work in works.items():
        started = time.thread_time()
        work()
        counts[name] = max(int(SECONDS_PER_ROUND / max(time.thread_time() - started, 1e-6)), 1)
    for _ in range(ROUNDS):
        for name, work in works.items():
            started = time.thread_time()
            for _ in range(counts[name]):
                work()
            best[name] = min(best[name], (time.thread_time() - started) / counts[name] * 1e6)
    return best


def bound(body: bytes, keys: tuple[str, ...], everything: bool) -> dict[str, Work]:
    return {name: partial(shape, body, keys, everything) for name, shape in SHAPES.items()}


def main() -> None:
    messages = {
        "1 KiB": flat(1024),
        "4 KiB": flat(4096),
        "16 KiB": flat(16 * 1024),
        "64 KiB": flat(64 * 1024),
        "20 items": repeating(),
    }
    for everything in (False, True):
        print("\nevery field looked at, one set (µs)" if everything else "\none field found and set (µs)")
        print(f"{'':36}" + "".join(f"{name:>10}" for name in messages))
        columns = [best_us(bound(body, keys, everything)) for body, keys in messages.values()]
        for name in SHAPES:
            print(f"{name:36}" + "".join(f"{column[name]:10.1f}" for column in columns))


if __name__ == "__main__":
    main()
