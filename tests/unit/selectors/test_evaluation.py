# SPDX-License-Identifier: Apache-2.0
"""Random selectors over random messages, against an evaluator written for plainness only.

It works on its own trees of tuples, which are rendered to text for the engine,
and shares no code with it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.message import Message
from entrepot.selectors import compile_selector

Tree = tuple[Any, ...]
Properties = dict[str, Any]

NAMES = ("a", "b", "c.d", "e")
TEXTS = st.text("xy'%", max_size=2)
NUMBERS = st.integers(-3, 3) | st.sampled_from([-1.5, 0.0, 0.5, 2.0])
PROPERTIES = st.dictionaries(
    st.sampled_from(NAMES), st.booleans() | NUMBERS | TEXTS | st.binary(max_size=1), max_size=len(NAMES)
)


def literal_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return values.map(lambda value: ("literal", value))


IDENTIFIERS = st.sampled_from(NAMES).map(lambda name: ("name", name))
TEXT_EXPRESSIONS = literal_of(TEXTS) | IDENTIFIERS
NUMBER_EXPRESSIONS = st.recursive(
    literal_of(NUMBERS) | IDENTIFIERS,
    lambda inner: (
        st.tuples(st.just("arithmetic"), st.sampled_from("+-*/"), inner, inner) | st.tuples(st.just("minus"), inner)
    ),
    max_leaves=4,
)
BOOLEAN_EXPRESSIONS = literal_of(st.booleans()) | IDENTIFIERS
ORDERS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def predicates_on(values: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return (
        st.tuples(st.just("compare"), ORDERS, values, values)
        | st.tuples(st.just("between"), st.booleans(), values, values, values)
        | st.tuples(st.just("null"), st.booleans(), values)
    )


PREDICATES = (
    predicates_on(TEXT_EXPRESSIONS)
    | predicates_on(NUMBER_EXPRESSIONS)
    | st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), BOOLEAN_EXPRESSIONS, BOOLEAN_EXPRESSIONS)
    | st.tuples(st.just("in"), st.booleans(), TEXT_EXPRESSIONS, st.lists(TEXTS, min_size=1, max_size=3))
    | st.tuples(st.just("in"), st.booleans(), NUMBER_EXPRESSIONS, st.lists(NUMBERS, min_size=1, max_size=3))
    | st.tuples(st.just("like"), st.booleans(), TEXT_EXPRESSIONS, st.text("xy'%_", max_size=4))
    | BOOLEAN_EXPRESSIONS
)
CONDITIONS = st.recursive(
    PREDICATES,
    lambda inner: (
        st.tuples(st.just("not"), inner)
        | st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3))
    ),
    max_leaves=6,
)


def rendered_value(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def rendered(tree: Tree) -> str:
    match tree:
        case ("literal", value):
            return rendered_value(value)
        case ("name", name):
            return str(name)
        case ("minus", inner):
            return f"- ({rendered(inner)})"
        case ("arithmetic" | "compare", symbol, left, right):
            return f"({rendered(left)}) {symbol} ({rendered(right)})"
        case ("between", positive, value, low, high):
            word = "BETWEEN" if positive else "NOT between"
            return f"({rendered(value)}) {word} ({rendered(low)}) AND ({rendered(high)})"
        case ("null", positive, value):
            return f"({rendered(value)}) IS {'' if positive else 'NOT '}NULL"
        case ("in", positive, value, members):
            listed = ",".join(map(rendered_value, members))
            return f"({rendered(value)}) {'' if positive else 'NOT '}IN ({listed})"
        case ("like", positive, value, pattern):
            return f"({rendered(value)}) {'' if positive else 'NOT '}LIKE {rendered_value(pattern)}"
        case ("not", inner):
            return f"NOT ({rendered(inner)})"
        case (word, operands):
            return f" {word} ".join(f"({rendered(operand)})" for operand in operands)
    raise AssertionError(tree)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compared(symbol: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    like = (is_number(left) and is_number(right)) or type(left) is type(right)
    if not like:
        return False if symbol == "=" else None
    if symbol in ("=", "<>"):
        return bool((left == right) == (symbol == "="))
    if isinstance(left, bool | bytes):
        return None
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[symbol])


def minimum(truths: list[bool | None]) -> bool | None:
    # Kleene's reading of the truth tables: FALSE < UNKNOWN < TRUE, and AND is the least.
    return min(truths, key=lambda truth: (False, None, True).index(truth))


def maximum(truths: list[bool | None]) -> bool | None:
    return max(truths, key=lambda truth: (False, None, True).index(truth))


def opposite(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def calculated(symbol: str, left: Any, right: Any) -> Any:
    if not is_number(left) or not is_number(right):
        return None
    if symbol != "/":
        return {"+": left + right, "-": left - right, "*": left * right}[symbol]
    if right == 0:
        return None
    return int(left / right) if isinstance(left, int) and isinstance(right, int) else left / right


def as_truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def valued(tree: Tree, properties: Properties) -> Any:
    match tree:
        case ("literal", value):
            return value
        case ("name", name):
            return properties.get(name)
        case ("minus", inner):
            return calculated("-", 0, valued(inner, properties))
        case ("arithmetic", symbol, left, right):
            return calculated(symbol, valued(left, properties), valued(right, properties))
        case ("compare", symbol, left, right):
            return compared(symbol, valued(left, properties), valued(right, properties))
        case ("not", inner):
            return opposite(as_truth(valued(inner, properties)))
        case ("and", operands):
            return minimum([as_truth(valued(operand, properties)) for operand in operands])
        case ("or", operands):
            return maximum([as_truth(valued(operand, properties)) for operand in operands])
        case (_, positive, *_):
            truth = predicate_truth(tree, properties)
            return truth if positive else opposite(truth)
    raise AssertionError(tree)


def predicate_truth(tree: Tree, properties: Properties) -> bool | None:
    value = valued(tree[2], properties)
    match tree:
        case ("between", _, _, low, high):
            bounds = valued(low, properties), valued(high, properties)
            return minimum([compared(">=", value, bounds[0]), compared("<=", value, bounds[1])])
        case ("null", _, _):
            return value is None
        case ("in", _, _, members):
            return maximum([compared("=", value, member) for member in members])
        case ("like", _, _, pattern):
            return like(value, pattern) if isinstance(value, str) else None
    raise AssertionError(tree)


@settings(max_examples=200, deadline=None)
@given(CONDITIONS, st.lists(PROPERTIES, min_size=1, max_size=4))
def test_engine_agrees_with_the_naive_evaluator(tree: Tree, all_properties: list[Properties]) -> None:
    text = rendered(tree)
    for properties in all_properties:
        message = Message(b"", properties=properties)
        truth = as_truth(valued(tree, properties))
        assert compile_selector(text).matches(message) is (truth is True), text
        assert compile_selector(f"NOT ({text})").matches(message) is (truth is False), text


@settings(deadline=None)
@given(CONDITIONS, PROPERTIES)
def test_condition_its_negation_and_its_nullness_exclude_each_other(tree: Tree, properties: Properties) -> None:
    text = rendered(tree)
    message = Message(b"", properties=properties)
    # Joined with TRUE, a property that is no boolean counts as UNKNOWN rather than as its value.
    forms = (text, f"NOT ({text})", f"(({text}) AND TRUE) IS NULL")
    assert [compile_selector(form).matches(message) for form in forms].count(True) == 1
