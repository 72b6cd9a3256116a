# SPDX-License-Identifier: Apache-2.0
"""The syntax of XPath expressions: text to a tree, with all that is not supported refused by its name.

The language is XPath 1.0 and what maps use of 2.0: literal sequences such as
('A', 'B'), and functions with the prefix fn.
"""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.xpath_tokens import NoToken, tokens_of

CHARACTERS_MAX = 4_000
DEPTH_MAX = 50


@dataclass(frozen=True, slots=True)
class Number:
    text: str


@dataclass(frozen=True, slots=True)
class XPathText:
    value: str


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class LocationStep:
    """A child or an attribute, by name."""

    prefix: str
    """Of its namespace; * for any."""
    name: str
    attribute: bool = False
    predicates: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class LocationPath:
    variable: str | None
    """Where it starts; None for the element at hand."""
    steps: tuple[LocationStep, ...]
    text: str
    """As it was written."""


@dataclass(frozen=True, slots=True)
class XPathCall:
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Expression


@dataclass(frozen=True, slots=True)
class XPathBinary:
    operator: str
    left: Expression
    right: Expression


Expression = Number | XPathText | Sequence | LocationPath | XPathCall | Negative | XPathBinary

_LEVELS = (("or",), ("and",), ("=", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "div", "mod"))
"""Operators from the loosest to the tightest."""
_SPATH = "spath"
"""How maps name one of several declarations of an element: spath('Data',2)."""


def parse_xpath(text: str) -> Expression:
    """
    Raises:
        ValueError: Says what is wrong or not supported, and at which character.
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise ValueError(f"an XPath has at most {CHARACTERS_MAX} characters here, this one has {len(text)}")
        self._text = text
        try:
            self._tokens = tokens_of(text)
        except NoToken as error:
            at = error.index
            raise ValueError(f"{text!r}: {text[at]!r} at character {at + 1} is no XPath") from None
        self._at = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._binary(0)
        if self._at < len(self._tokens):
            raise self._wrong()
        return found

    # --- tokens ---------------------------------------------------------------------------------

    def _peek(self, offset: int = 0) -> tuple[str, str]:
        if self._at + offset >= len(self._tokens):
            return "end", ""
        kind, text, _ = self._tokens[self._at + offset]
        return kind, text

    def _take(self, sign: str) -> bool:
        if self._peek() == ("sign", sign):
            self._at += 1
            return True
        return False

    def _want(self, sign: str) -> None:
        if not self._take(sign):
            raise self._wrong(f"{sign} is missing")

    def _wrong(self, problem: str = "") -> ValueError:
        if self._at >= len(self._tokens):
            return ValueError(f"{self._text!r} ends too early{': ' + problem if problem else ''}")
        _, token, start = self._tokens[self._at]
        return ValueError(f"{self._text!r}: {problem or 'this is no XPath'}, at character {start + 1}: {token!r}")

    # --- expressions ----------------------------------------------------------------------------

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek()[0] in ("name", "sign") and self._peek()[1] in _LEVELS[level]:
            operator = self._peek()[1]
            self._at += 1
            left = XPathBinary(operator, left, self._binary(level + 1))
        if self._peek() == ("sign", "|"):
            raise self._wrong("unions with | are not supported")
        return left

    def _unary(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ValueError(f"{self._text[:60]!r}... is nested more than {DEPTH_MAX} deep")
        found = Negative(self._unary()) if self._take("-") else self._primary()
        self._depth -= 1
        return found

    def _primary(self) -> Expression:
        kind, text = self._peek()
        if kind == "number":
            self._at += 1
            return Number(text.rstrip(".") if not text.startswith(".") else f"0{text}")
        if kind == "literal":
            self._at += 1
            return XPathText(text[1:-1])
        if (kind, text) == ("sign", "("):
            return self._brackets()
        if kind == "name" and self._peek(1) == ("sign", "(") and text not in (_SPATH, "text", "node", "mb:msg"):
            return self._call()
        return self._path()

    def _brackets(self) -> Expression:
        self._want("(")
        items = [self._binary(0)]
        while self._take(","):
            items.append(self._binary(0))
        self._want(")")
        if len(items) == 1:
            return items[0]
        if not all(isinstance(item, Number | XPathText) for item in items):
            raise self._wrong("only literals can stand in a sequence")
        return Sequence(tuple(items))

    def _call(self) -> Expression:
        name = self._peek()[1]
        self._at += 1
        self._want("(")
        arguments: list[Expression] = []
        if not self._take(")"):
            arguments.append(self._binary(0))
            while self._take(","):
                arguments.append(self._binary(0))
            self._want(")")
        if self._peek()[1] in ("/", "["):
            raise self._wrong(f"steps behind {name}() are not supported")
        return XPathCall(name, tuple(arguments))

    # --- paths ----------------------------------------------------------------------------------

    def _path(self) -> LocationPath:
        start = self._tokens[self._at][2] if self._at < len(self._tokens) else 0
        variable: str | None = None
        steps: list[LocationStep] = []
        kind, text = self._peek()
        if kind == "variable":
            variable = text[1:]
            self._at += 1
            if self._peek() == ("sign", "//"):
                raise self._wrong("descendants with // are not supported")
            if not self._take("/"):
                return LocationPath(variable, (), text)
        elif text == "/":
            raise self._wrong("paths from / are not supported; begin with $Root or $Body")
        while True:
            step = self._step()
            if step is not None:
                steps.append(step)
            if self._peek() == ("sign", "//"):
                raise self._wrong("descendants with // are not supported")
            if not self._take("/"):
                break
        end = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        return LocationPath(variable, tuple(steps), self._text[start:end].strip())

    def _step(self) -> LocationStep | None:
        if self._take("."):
            return None
        kind, text = self._peek()
        if text == "//":
            raise self._wrong("descendants with // are not supported")
        if text == "..":
            raise self._wrong("parents with .. are not supported")
        attribute = self._take("@")
        kind, text = self._peek()
        if kind != "name":
            raise self._wrong()
        self._at += 1
        if self._peek() == ("sign", "::"):
            if text not in ("child", "attribute"):
                raise self._wrong(f"the axis {text} is not supported")
            self._at += 1
            attribute = text == "attribute"
            _, text = self._peek()
            self._at += 1
        if text == _SPATH:
            text = self._declared()
        elif self._peek() == ("sign", "("):
            if text != "text":
                raise self._wrong(f"{text}() is not supported as a step")
            self._want("(")
            self._want(")")
            return None
        prefix, _, name = text.rpartition(":")
        return LocationStep(prefix, name, attribute, self._predicates())

    def _declared(self) -> str:
        self._want("(")
        kind, text = self._peek()
        if kind != "literal":
            raise self._wrong("spath() wants a name")
        self._at += 1
        if self._take(","):
            self._at += 1
        self._want(")")
        return text[1:-1]

    def _predicates(self) -> tuple[Expression, ...]:
        found = []
        while self._take("["):
            found.append(self._binary(0))
            self._want("]")
        return tuple(found)
