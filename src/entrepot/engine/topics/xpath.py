# SPDX-License-Identifier: Apache-2.0
"""Content filters in XPath 1.0, for bodies that are XML: `xpath:/order[total > 100]`.

Expressions come from strangers and run where publications are handed out, so
there are bounds: an expression has at most 1,000 characters, and it matches no
body of more than 4 MiB, nor one for which it could make more work than
xpath_work.py allows: for `//a//b` that is one of some 5,000 nodes. Nor does it
match a body with a DOCTYPE, which could bring entities from elsewhere or grow
without end. There are no variables, no prefixes but `xml`, no axis `namespace`,
and no functions but those of XPath 1.0. An expression that cannot be evaluated for some body does
not match it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lxml import etree

from entrepot.engine.topics.xpath_cost import WORK_MAX, Bound, UnknownSyntax, bound_of, steps_max
from entrepot.errors import ContentFilterSyntaxError
from entrepot.limits import MIB

EXPRESSION_CHARACTERS_MAX = 1_000
BODY_BYTES_MAX = 4 * MIB

_NAME = "xpath"
_EXCERPT_CHARACTERS = 60

_COUNT_NODES = etree.XPath("count(//node()) + count(//@*)")
_DEPTHS = (8, 16, 32, 64, 128)
_IS_DEEPER = {depth: etree.XPath(f"boolean({'/*' * (depth + 1)})") for depth in _DEPTHS}
_DEPTH_MAX = 2048
"""libxml2 reads no deeper document."""


@dataclass(frozen=True, slots=True)
class Document:
    """An XML body, with what its evaluation can cost."""

    root: Any
    nodes: int
    depth: int
    """At least its depth: a few sizes are told apart."""
    body_bytes: int


class XPathFilter:
    """A condition on XML bodies; made by `XPathLanguage.compile`."""

    __slots__ = ("_bound", "_condition", "text")

    language = _NAME

    def __init__(self, text: str, condition: etree.XPath, bound: Bound) -> None:
        self.text = text
        self._bound = bound
        self._condition = condition

    def matches(self, document: Document) -> bool:
        """Whether there are such nodes, or the value is true, a number but 0 and NaN, or a text that is not empty."""
        if steps_max(self._bound, document.nodes, document.depth, document.body_bytes) > WORK_MAX:
            return False
        try:
            return bool(self._condition(document.root))
        except etree.LxmlError:
            return False

    def __repr__(self) -> str:
        return f"XPathFilter({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Filters travel to other processes as text, since what lxml has compiled cannot.
        return _compile_text, (self.text,)


class XPathLanguage:
    """The language `xpath`."""

    name = _NAME

    def compile(self, expression: str) -> XPathFilter:
        """The filter of an expression.

        Raises:
            ContentFilterSyntaxError: It is no XPath 1.0, too long, or uses what is not there. Where
                lxml does not know the column, it is 1.
        """
        text = f"{_NAME}:{expression}"
        if len(expression) > EXPRESSION_CHARACTERS_MAX:
            problem = f"XPath has at most {EXPRESSION_CHARACTERS_MAX} characters here, this one has {len(expression)}"
            column = len(_NAME) + 1 + EXPRESSION_CHARACTERS_MAX + 1
            raise ContentFilterSyntaxError(text[:_EXCERPT_CHARACTERS] + "...", column, problem)
        _require_syntax(text, expression)
        try:
            bound = bound_of(expression)
        except UnknownSyntax as unknown:
            raise ContentFilterSyntaxError(text, len(_NAME) + 1 + unknown.index + 1, unknown.problem) from None
        # boolean() has just the rules that a filter needs, and spares us a Python
        # object for each of what may be a million nodes.
        try:
            return XPathFilter(text, etree.XPath(f"boolean({expression})", regexp=False), bound)
        except etree.XPathSyntaxError as error:
            # What libxml2 takes by itself, for instance "1 > f(", can be none within parentheses.
            raise ContentFilterSyntaxError(text, 1, _problem(error)) from None

    def parse(self, body: bytes) -> Document | None:
        """The document; None when the body is no XML, too large, or has a DOCTYPE."""
        if len(body) > BODY_BYTES_MAX:
            return None
        # A new parser each time, since an old one keeps every name it has ever read.
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        try:
            root = etree.fromstring(body, parser)
        except (etree.LxmlError, ValueError, LookupError):
            return None
        if root.getroottree().docinfo.internalDTD is not None:
            return None
        depth = next((depth for depth in _DEPTHS if not _IS_DEEPER[depth](root)), _DEPTH_MAX)
        return Document(root, int(_COUNT_NODES(root)), depth, len(body))


def _compile_text(text: str) -> XPathFilter:
    return XPathLanguage().compile(text.removeprefix(f"{_NAME}:"))


def _require_syntax(text: str, expression: str) -> None:
    # It is compiled alone first: inside of boolean(), '1) or (2' would be right.
    try:
        etree.XPath(expression, regexp=False)
    except etree.XPathSyntaxError as error:
        raise ContentFilterSyntaxError(text, _column(error, expression), _problem(error)) from None
    except ValueError:
        raise ContentFilterSyntaxError(text, 1, "XPath has no control characters and no lone surrogates") from None


def _column(error: etree.XPathSyntaxError, expression: str) -> int:
    entries = [entry.column for entry in error.error_log]
    if not entries:
        return 1
    # libxml2 counts bytes of UTF-8 from 0, and we count characters from 1, those of "xpath:" too.
    before = expression.encode()[: entries[-1]].decode(errors="ignore")
    return len(_NAME) + 1 + len(before) + 1


def _problem(error: etree.XPathSyntaxError) -> str:
    message = str(error)
    return f"XPath 1.0 does not go on like this ({message[:1].lower()}{message[1:]})"
