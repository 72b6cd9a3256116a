# SPDX-License-Identifier: Apache-2.0
"""Documents for the tape (src/entrepot/compiled/tape.pyx): what it takes must be what lxml takes, and the same tree.

    PYTHONPATH=tests python -m fuzz.documents --runs 1000000              `make torture` does this
    PYTHONPATH=tests python -m fuzz.documents --runs 100000 --sanitized   under AddressSanitizer
    PYTHONPATH=tests python -m fuzz.documents FILE                        one document once more, as a finding tells

Documents are made and then damaged at random, from seeds. Each is read in all three domains, by the tape and by lxml.
Where the tape takes it, both trees must be equal, also in what they are written as after the same change.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from entrepot.compiled import compiled
from entrepot.errors import MessageUnreadable, MessageUnwritable
from entrepot.models.tree import Element, Folder
from entrepot.models.xml import XML, XMLNS, XMLNSC, CompactDomain

from .finding import Finding

DOMAINS = (XMLNSC, XMLNS, XML)
FINDINGS = Path("fuzz-findings")

_NAMES = ("a", "b", "order", "Item", "_x", "n-1", "a.b", "A1")
_TEXTS = (
    "", "1", "nail", "two words", " ", "\n  ", "\t", "é", "日本", "&amp;", "&lt;b&gt;", "&quot;", "&apos;", "&#65;",
    "&#x1F600;", "&#13;", "a&#10;b", ">", "]", "]]", "it's", 'say "x"', "\r\n", "a\rb", "x" * 70, "\ufffd", "1.25",
)  # fmt: skip
_SPACES = ("", "", "", " ", "\n", "\n    ", "\t", "  \r\n")
_DAMAGE = (
    b"<", b">", b"/", b"&", b";", b'"', b"'", b"=", b"]]>", b"<![CDATA[x]]>", b"<!-- c -->", b"<?p i?>", b"-", b"1",
    b"<!DOCTYPE a>", b"&x;", b"&#0;", b"&#xD800;", b"&#x110000;", b"&#99999999999;", b"\0", b"\x01", b"\x0b", b"\xff",
    b"\xc3", b"\xed\xa0\x80", b"\xef\xbf\xbf", b"\xef\xbb\xbf", b":", b"xmlns='u'", b"xml:lang='x'", b" ", b"\n",
    b"\r", b"<a>", b"</a>", b"<b/>", b"a='1' a='2'", b"<?xml version='1.0'?>", b"encoding='latin-1'", b"\xc2\x85",
    b"\xe2\x80\xa8",
)  # fmt: skip
_HEADS = (
    "", "", "", "", "<?xml version='1.0'?>", '<?xml version="1.0" encoding="UTF-8"?>\n',
    '<?xml version="1.0" encoding="utf-8" standalone="yes"?>', "\n", "<?xml version='1.1'?>",
)  # fmt: skip


class Documents:
    """Documents from a seed, most of them nearly right."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self) -> bytes:
        chance = self._random
        text = chance.choice(_HEADS) + self._element(chance.randrange(5)) + chance.choice(("", "", "\n", "  "))
        body = text.encode()
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
            place = chance.randrange(len(body) + 1)
            what = chance.randrange(4)
            if what == 0:
                body = body[:place] + chance.choice(_DAMAGE) + body[place:]
            elif what == 1:
                body = body[:place] + body[place + chance.randrange(1, 4) :]
            elif what == 2:
                body = body[:place] + chance.choice(_DAMAGE) + body[place + 1 :]
            else:
                end = chance.randrange(len(body) + 1)
                body = body[:place] + body[min(place, end) : max(place, end)] + body[place:]
        return body

    def _element(self, depth: int) -> str:
        chance = self._random
        name = chance.choice(_NAMES)
        attributes = ""
        for attribute in chance.sample(_NAMES, chance.choice((0, 0, 0, 1, 2))):
            quote = chance.choice('""\'')
            value = chance.choice(_TEXTS).replace("<", "&lt;").replace(quote, "")
            attributes += f"{chance.choice((' ', ' ', '  ', chr(10)))}{attribute}{chance.choice(('=', '=', ' = '))}"
            attributes += f"{quote}{value}{quote}"
        start = f"<{name}{attributes}{chance.choice(('', '', '', ' '))}"
        count = 0 if depth == 0 else chance.choice((0, 1, 2, 3, 8))
        if count == 0:
            text = chance.choice(_TEXTS)
            return start + "/>" if not text and chance.random() < 0.5 else f"{start}>{text}</{name}>"
        space = chance.choice(_SPACES)
        between = chance.choice(_TEXTS) if chance.random() < 0.2 else ""
        children = (space + between).join(self._element(depth - 1) for _ in range(count))
        return f"{start}>{space}{children}{space}</{name}{chance.choice(('', '', '', ' '))}>"


@dataclass
class Tally:
    documents: int = 0
    taken: dict[str, int] = field(default_factory=lambda: {domain.name: 0 for domain in DOMAINS})


def told(element: Element) -> tuple[Any, ...]:
    """All that a program can see of a tree."""
    return element.key, element.kind, element.value, [told(child) for child in element.children]


def compare(body: bytes, tape: Any, tally: Tally) -> None:
    """
    Raises:
        Finding: The tape takes what lxml refuses, or makes another tree of it.
    """
    for domain in DOMAINS:
        taped = Folder(domain, body)
        document = tape.document_of(taped, isinstance(domain, CompactDomain))
        if document is None:
            continue
        tally.taken[domain.name] += 1
        read = Folder(domain, body)
        try:
            read._children = []
            domain.parse_by_lxml(read)
        except MessageUnreadable as error:
            raise Finding(f"{domain.name}: the tape takes what lxml refuses ({error}): {body!r}") from error
        by_tape = Folder(domain, body)
        require_equal(domain.name, body, told(read), told(by_tape))
        change = _CHANGES[len(body) % len(_CHANGES)]
        changed = Folder(domain, body)
        change(changed, body)
        change(read, body)
        require_equal(f"{domain.name} {change.__name__} written", body, written(read), written(changed))
        require_equal(f"{domain.name} {change.__name__}", body, told(read), told(changed))


def written(folder: Folder) -> Any:
    try:
        return folder.render()
    except MessageUnwritable as error:
        return type(error)


def require_equal(what: str, body: bytes, by_lxml: Any, by_tape: Any) -> None:
    if by_lxml != by_tape:
        raise Finding(f"{what}: by lxml {by_lxml!r}, by the tape {by_tape!r}: {body!r}")


def _document(folder: Folder) -> Element:
    return folder.children[-1]


def _add_last(folder: Folder, body: bytes) -> None:
    del body
    _document(folder).add("added", "<1>")


def _set_a_leaf(folder: Folder, body: bytes) -> None:
    """Some element below, found as a program finds it; and something new, so that all is written."""
    place = _document(folder)
    for name in _NAMES[len(body) % 3 :]:
        found = place.first(name)
        if found is not None:
            place = found
    place.set_value("set")
    _document(folder).add("added")


def _copy_a_part(folder: Folder, body: bytes) -> None:
    document = _document(folder)
    for child in list(document.children)[len(body) % 2 :: 2]:
        if child.key:
            document.append(child.copy())


_CHANGES = (_add_last, _set_a_leaf, _copy_a_part)


def fuzz(seed: int, runs: int) -> Tally:
    """
    Raises:
        Finding: It says what differs, with the document.
    """
    tape = compiled("tape")
    documents = Documents(seed)
    tally = Tally()
    for _ in range(runs):
        compare(documents.next(), tape, tally)
        tally.documents += 1
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.documents")
    parser.add_argument("--runs", type=int, default=100_000, help="documents in all")
    parser.add_argument("--seed", type=int, default=1, help="of the first process; the next ones count on")
    parser.add_argument("--processes", type=int, default=0, help="one for each processor unless given")
    parser.add_argument("--sanitized", action="store_true", help="build the compiled modules with AddressSanitizer")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("file", nargs="?", type=Path)
    asked = parser.parse_args()
    if asked.file is not None:
        compare(asked.file.read_bytes(), compiled("tape"), Tally())
        print(f"{asked.file} is read alike")
        return 0
    if asked.inside:
        tally = fuzz(asked.seed, asked.runs)
        print(tally.documents, *tally.taken.values())
        return 0
    with tempfile.TemporaryDirectory() as name:
        environment = dict(os.environ)
        if asked.sanitized:
            from .sanitized import build

            environment = build(Path(name))
        return _campaign(asked.seed, asked.runs, asked.processes or os.cpu_count() or 1, environment)


def _campaign(seed: int, runs: int, processes: int, environment: dict[str, str]) -> int:
    shares = [runs // processes + (index < runs % processes) for index in range(processes)]
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "fuzz.documents", "--inside", "--seed", str(seed + index), "--runs", str(share)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index, share in enumerate(shares)
    ]
    totals = [0] * (1 + len(DOMAINS))
    failed = 0
    for child in children:
        printed, _ = child.communicate()
        failed += child.returncode != 0
        for index, number in enumerate(map(int, printed.split())):
            totals[index] += number
    taken = ", ".join(f"{domain.name} {number:,}" for domain, number in zip(DOMAINS, totals[1:], strict=True))
    print(f"{totals[0]:,} documents, taken by the tape: {taken}; {failed} processes with a finding")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
