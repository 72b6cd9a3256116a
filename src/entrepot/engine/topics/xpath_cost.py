# SPDX-License-Identifier: Apache-2.0
"""How much work an XPath expression can make, told from its text.

libxml2 cannot be stopped once it evaluates: `count(//a//b)` took a minute on a
body of 160 KB, because the nodes found from one place are compared with all
those found before. So we know the bound beforehand, as a polynomial of the
document's nodes, its depth and its bytes, and do not evaluate what is beyond
`WORK_MAX`. It is a bound, and most evaluations stay far below it.

The analysis follows the grammar of XPath 1.0 without precedence, which makes
no difference for a sum. Each part has two bounds: `once`, for one context node,
and `everywhere`, for all nodes of the document as contexts, one after the
other, as in a predicate. Going down, `everywhere` is not more than `once`,
because every node has one parent; looking elsewhere, it is that many times more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from entrepot.xpath_tokens import NoToken, Token, tokens_of

WORK_MAX = 200_000_000
"""Steps of some nanoseconds: the worst that we found took about a second."""

PREDICATE_STEPS = 4
"""A predicate is evaluated anew for each node, which takes longer than to come by."""

DEPTH_MAX = 50
"""Brackets within brackets."""

# fmt: off
CORE_FUNCTIONS = frozenset({
    "last", "position", "count", "id", "local-name", "namespace-uri", "name", "string", "concat", "starts-with",
    "contains", "substring-before", "substring-after", "substring", "string-length", "normalize-space",
    "translate", "boolean", "not", "true", "false", "lang", "number", "sum", "floor", "ceiling", "round",
})
# fmt: on
_NODE_TYPES = frozenset({"node", "text", "comment", "processing-instruction"})
_OPERATORS = frozenset({"and", "or", "div", "mod", "*", "+", "-", "=", "!=", "<", "<=", ">", ">=", "|"})
_PAIRING = frozenset({"=", "!=", "<", "<=", ">", ">=", "|"})
_DOWN = frozenset({"child", "attribute", "self"})
_DESCENT = frozenset({"descendant", "descendant-or-self"})
_ASCENT = frozenset({"parent", "ancestor", "ancestor-or-self"})

_Powers = tuple[int, int, int]
"""Of nodes, depth and bytes."""
Bound = Counter[_Powers]

_ONE: _Powers = (0, 0, 0)
_NODES: _Powers = (1, 0, 0)
_DEPTH: _Powers = (0, 1, 0)
_TEXTS: _Powers = (0, 1, 1)  # the texts of all nodes: each byte is in as many as its depth
_PAIRS: tuple[_Powers, ...] = ((2, 0, 0), (1, 0, 1))  # every node with every other, and their texts


class UnknownSyntax(Exception):
    """Something that is not in our XPath; `index` is its place in the expression, from 0."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


@dataclass(frozen=True, slots=True)
class EvaluationCost:
    once: Bound
    everywhere: Bound
    is_nodes: bool = False
    spread: _Powers = _NODES
    """How often a node can be in the results, when all nodes are contexts one after the other."""


_END = Token("end", "", -1)


def bound_of(expression: str) -> Bound:
    """The bound of an expression that libxml2 has found to be right.

    Raises:
        Unknown: It has a variable, a prefix, the axis `namespace`, a function that is not in XPath 1.0,
            or is nested too deep.
    """
    return _ExpressionReader(expression).sequence().once


def steps_max(bound: Bound, nodes: int, depth: int, body_bytes: int) -> int:
    """The bound for a document."""
    # Eight bytes of text are copied or compared in the time of a step.
    words = body_bytes // 8 + 1
    return sum(times * nodes**n * depth**d * words**w for (n, d, w), times in bound.items())


def _product(left: _Powers, right: _Powers) -> _Powers:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def _scaled(bound: Bound, *factors: _Powers, times: int = 1) -> Bound:
    scaled: Bound = Counter()
    for powers, count in bound.items():
        for factor in factors:
            powers = _product(powers, factor)
        scaled[powers] += count * times
    return scaled


class _Path:
    """The bounds of a location path, while its steps come in."""

    def __init__(self, start: EvaluationCost | None, is_absolute: bool) -> None:
        self.once: Bound = Counter({_ONE: 1})
        self.everywhere: Bound = Counter({_NODES: 1})
        if start:
            self.once += start.once
            self.everywhere += start.everywhere
        self.is_absolute = is_absolute
        self.spread = _NODES if start or is_absolute else _ONE
        self.has_one_context = start is None
        self.repeats = _ONE
        self.steps = 0

    def step(self, axis: str) -> None:
        results, self.repeats = self._results_and_repeats(axis)
        if axis in _DESCENT and self.spread != _NODES:
            self.spread = _product(self.spread, _DEPTH)
        elif axis not in _DOWN | _DESCENT:
            self.spread = _NODES
        self.once[results] += 1
        self.everywhere[_product(results, self.spread)] += 1
        self.steps += 1
        # The root has one element below it, so that /order//item still begins at one place.
        is_root_element = self.is_absolute and self.steps == 1 and axis == "child"
        if axis != "self" and not is_root_element:
            self.has_one_context = False

    def _results_and_repeats(self, axis: str) -> tuple[_Powers, _Powers]:
        """The work of a step, and how often it can come by the same node."""
        if axis in _DOWN or self.has_one_context:
            return _NODES, _ONE
        if axis in _DESCENT:
            return (2, 1, 0), _DEPTH
        if axis in _ASCENT:
            return (2, 1, 0), _NODES
        return (3, 0, 0), _NODES

    def predicate(self, condition: EvaluationCost) -> None:
        self.once += _scaled(condition.everywhere, self.repeats, times=PREDICATE_STEPS)
        self.everywhere += _scaled(condition.everywhere, self.repeats, self.spread, times=PREDICATE_STEPS)

    def work(self) -> EvaluationCost:
        self.once[_TEXTS] += 1
        self.everywhere[_product(_TEXTS, self.spread)] += 1
        return EvaluationCost(self.once, self.everywhere, is_nodes=True, spread=self.spread)


class _ExpressionReader:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        try:
            self._tokens = [*tokens_of(expression), _END]
        except NoToken as error:
            raise UnknownSyntax(error.index, "this character is not understood here") from None
        self._place = 0
        self._depth = 0

    @property
    def _now(self) -> Token:
        return self._tokens[self._place]

    def _is_at(self, *texts: str) -> bool:
        return self._now.kind in ("sign", "name") and self._now.text in texts

    def _take(self) -> Token:
        token = self._now
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    def _take_if(self, text: str) -> bool:
        if self._is_at(text):
            self._take()
            return True
        return False

    def sequence(self) -> EvaluationCost:
        """Operands with operators between them, up to a bracket that closes, a comma or the end."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise UnknownSyntax(max(self._now.at, 0), f"there are more than {DEPTH_MAX} brackets within each other")
        total = self._operand()
        last = total
        while self._is_at(*_OPERATORS):
            operator = self._take().text
            operand = self._operand()
            once, everywhere = total.once + operand.once, total.everywhere + operand.everywhere
            if operator in _PAIRING and last.is_nodes and operand.is_nodes:
                pairs = Counter(_PAIRS)
                # The side whose nodes come up less often bounds the pairs.
                once, everywhere = once + pairs, everywhere + _scaled(pairs, min(last.spread, operand.spread))
            total = EvaluationCost(once, everywhere, is_nodes=total.is_nodes or operand.is_nodes)
            last = operand
        self._depth -= 1
        return total

    def _operand(self) -> EvaluationCost:
        while self._take_if("-"):
            pass
        start: EvaluationCost | None = None
        token = self._now
        if token.kind in ("literal", "number"):
            self._take()
            return EvaluationCost(Counter({_ONE: 1}), Counter({_NODES: 1}))
        if token.kind == "variable":
            raise UnknownSyntax(token.at, "there are no variables")
        if self._take_if("("):
            start = self.sequence()
            self._take_if(")")
        elif token.kind == "name" and self._next_is("(") and token.text not in _NODE_TYPES:
            start = self._function()
        if start and not self._is_at("[", "/", "//"):
            return start
        return self._path(start)

    def _function(self) -> EvaluationCost:
        name = self._take()
        if name.text not in CORE_FUNCTIONS:
            raise UnknownSyntax(name.at, f"there is no function {name.text}()")
        self._take_if("(")
        arguments: list[EvaluationCost] = []
        while not self._is_at(")") and self._now is not _END:
            arguments.append(self.sequence())
            self._take_if(",")
        self._take_if(")")
        once: Bound = Counter({_TEXTS: 1})
        everywhere: Bound = Counter({_product(_TEXTS, _ONE): 1, _NODES: 1})
        for argument in arguments:
            once, everywhere = once + argument.once, everywhere + argument.everywhere
        # What is copied again with every argument, and what is looked up for every character.
        times = len(self._expression) if name.text == "translate" else max(len(arguments), 1)
        return EvaluationCost(_scaled(once, times=times), _scaled(everywhere, times=times), is_nodes=name.text == "id")

    def _path(self, start: EvaluationCost | None) -> EvaluationCost:
        is_absolute = start is None and self._is_at("/", "//")
        path = _Path(start, is_absolute)
        self._predicates(path)
        if start is None and not is_absolute:
            self._step(path)
        while self._is_at("/", "//"):
            if self._take().text == "//":
                self._step(path, is_descent=True)
            elif self._begins_step():
                self._step(path)
        return path.work()

    def _begins_step(self) -> bool:
        """Whether a step follows; after `/` alone, which is the root, an operator can."""
        return self._now.kind == "name" or self._is_at("@", ".", "..")

    def _step(self, path: _Path, is_descent: bool = False) -> None:
        axis = self._axis()
        if is_descent:
            path.step("descendant-or-self")
        if not is_descent or axis != "child":
            path.step(axis)
        self._predicates(path)

    def _axis(self) -> str:
        """The axis of a step whose node test is taken as well."""
        if self._take_if("."):
            return "self"
        if self._take_if(".."):
            return "parent"
        axis = "child"
        if self._take_if("@"):
            axis = "attribute"
        elif self._now.kind == "name" and self._next_is("::"):
            axis = self._take().text
            if axis == "namespace":
                # Its nodes are in no count, and libxml2 collects them anew for each element.
                raise UnknownSyntax(self._tokens[self._place - 1].at, "there is no axis namespace; see namespace-uri()")
            self._take()
        test = self._take()
        prefix, colon, _ = test.text.partition(":")
        if test.kind == "name" and colon and prefix != "xml":
            raise UnknownSyntax(test.at, f"there is no prefix {prefix}; write *[local-name() = 'NAME']")
        if self._is_at("("):
            while not self._take_if(")") and self._now is not _END:
                self._take()
        return axis

    def _predicates(self, path: _Path) -> None:
        while self._take_if("["):
            path.predicate(self.sequence())
            self._take_if("]")

    def _next_is(self, text: str) -> bool:
        following = self._tokens[min(self._place + 1, len(self._tokens) - 1)]
        return following.kind == "sign" and following.text == text
