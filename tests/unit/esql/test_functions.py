# SPDX-License-Identifier: Apache-2.0
"""The table of functions."""

from __future__ import annotations

import inspect
import random
import re
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.checker.expressions import STRUCTURAL
from entrepot.esql.runtime.casting import cast
from entrepot.esql.runtime.comparing import equal, greater, greater_equal, less, less_equal, like, not_equal
from entrepot.esql.runtime.functions import FUNCTIONS, Builtin
from entrepot.esql.runtime.operators import add, concat, divide, multiply, subtract
from entrepot.models.values import Bits, Interval
from folding import for_each

DOCUMENTED = """
    CONTAINS ENDSWITH LEFT LENGTH LOWER LCASE LTRIM OVERLAY POSITION REPLACE REPLICATE RIGHT RTRIM SPACE STARTSWITH
    SUBSTRING TRANSLATE TRIM UPPER UCASE ABS ABSVAL ACOS ASIN ATAN ATAN2 BITAND BITNOT BITOR BITXOR CEIL CEILING COS
    COSH COT DEGREES EXP FLOOR LN LOG LOG10 MOD POWER RADIANS RAND ROUND SIGN SIN SINH SQRT TAN TANH TRUNCATE EXTRACT
    CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_GMTDATE CURRENT_GMTTIME CURRENT_GMTTIMESTAMP LOCAL_TIMEZONE
    UUIDASBLOB UUIDASCHAR BASE64ENCODE BASE64DECODE SQLCODE SQLERRORTEXT SQLNATIVEERROR SQLSTATE MESSAGEFLOWLABEL
    EXECUTIONGROUPLABEL BROKERNAME NODELABEL QUEUEMANAGERNAME
"""


def run() -> Any:
    return SimpleNamespace(
        now=datetime(2003, 12, 24, tzinfo=UTC),
        local_zone=UTC,
        labels={"MessageFlowLabel": "Orders", "BrokerName": "here"},
        random=random.Random(5),
        sqlcode=-803,
        sqlstate="23505",
        sqlerrortext="twice",
        sqlnativeerror=-803,
    )


def test_every_documented_function_is_there() -> None:
    assert set(DOCUMENTED.split()) <= set(FUNCTIONS)


def test_no_function_is_both_of_values_and_of_fields() -> None:
    assert not set(FUNCTIONS) & set(STRUCTURAL)


@for_each("builtin", FUNCTIONS.values(), ids=lambda builtin: builtin.name)
def test_what_the_table_says_is_what_the_function_takes(builtin: Builtin) -> None:
    assert builtin.name == builtin.name.upper()
    assert builtin.forms
    assert builtin.arguments_max is None or builtin.arguments_min <= builtin.arguments_max
    signature = inspect.signature(builtin.call)
    before = 1 if builtin.needs_run else 0
    keywords = {"form": builtin.forms[0]} if len(builtin.forms) > 1 else {}
    for count in {builtin.arguments_min, 9 if builtin.arguments_max is None else builtin.arguments_max}:
        signature.bind(*([None] * (count + before)), **keywords)
    if len(builtin.forms) == 1:
        assert "form" not in signature.parameters


def test_sql_state_is_what_the_run_holds() -> None:
    assert FUNCTIONS["SQLCODE"].call(run()) == -803
    assert FUNCTIONS["SQLSTATE"].call(run()) == "23505"
    assert FUNCTIONS["SQLERRORTEXT"].call(run()) == "twice"
    assert FUNCTIONS["SQLNATIVEERROR"].call(run()) == -803


def test_labels_are_what_the_run_holds_and_null_otherwise() -> None:
    assert FUNCTIONS["MESSAGEFLOWLABEL"].call(run()) == "Orders"
    assert FUNCTIONS["BROKERNAME"].call(run()) == "here"
    assert FUNCTIONS["QUEUEMANAGERNAME"].call(run()) is None


def test_a_uuid_is_text_or_bytes_and_one_becomes_the_other() -> None:
    context = run()
    text = FUNCTIONS["UUIDASCHAR"].call(context)
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", text)
    assert FUNCTIONS["UUIDASCHAR"].call(context) != text
    data = FUNCTIONS["UUIDASBLOB"].call(context, text)
    assert len(data) == 16
    assert FUNCTIONS["UUIDASCHAR"].call(context, data) == text
    assert len(FUNCTIONS["UUIDASBLOB"].call(context)) == 16
    assert FUNCTIONS["UUIDASCHAR"].call(context, None) is None
    assert FUNCTIONS["UUIDASBLOB"].call(context, None) is None


@pytest.mark.parametrize(
    ("name", "argument"), [("UUIDASBLOB", "nonsense"), ("UUIDASBLOB", 1), ("UUIDASCHAR", b"short")]
)
def test_what_is_no_uuid_is_an_error(name: str, argument: Any) -> None:
    with pytest.raises(EsqlRunError):
        FUNCTIONS[name].call(run(), argument)


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        FUNCTIONS["LENGTH"] = None  # type: ignore[index]


WORLD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 30),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["%", "12", "-1.5", "X'01'", "2003-12-24", "09:24:15", "BOTH", "YEAR", "I", "#,##0.00", "yyyyMMdd"]
    ),
    st.binary(max_size=9),
    st.text("01", max_size=9).map(Bits),
    st.dates(),
    st.times(),
    st.times(timezones=st.just(UTC)),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.integers(-(10**9), 10**9).map(lambda months: Interval("YEAR TO MONTH", months)),
    st.integers(-(10**15), 10**15).map(lambda seconds: Interval("DAY TO SECOND", seconds=Decimal(seconds))),
)


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(WORLD, min_size=4, max_size=4), st.data())
@settings(max_examples=300, deadline=None)
def test_any_call_with_any_values_answers_or_raises_an_esql_error(name: str, values: list[Any], data: Any) -> None:
    builtin = FUNCTIONS[name]
    form = data.draw(st.sampled_from(builtin.forms))
    least = max(builtin.arguments_min, 2 + form.count(" FROM") + form.count(" REPEAT") if name == "POSITION" else 0)
    least = max(least, 3 if form in ("MODE", "FROM FOR", "BEFORE FOR", "AFTER FOR") else 0)
    most = 4 if builtin.arguments_max is None else builtin.arguments_max
    arguments = values[: data.draw(st.integers(min(least, most), most))]
    keywords = {"form": form} if len(builtin.forms) > 1 else {}
    try:
        builtin.call(*([run()] if builtin.needs_run else []), *arguments, **keywords)
    except EsqlRunError as failure:
        assert str(failure)


OPERATIONS = [add, subtract, multiply, divide, concat, equal, not_equal, less, less_equal, greater, greater_equal, like]
TARGETS = ["CHARACTER", "BLOB", "BIT", "INTEGER", "DECIMAL", "FLOAT", "BOOLEAN", "DATE", "TIME", "GMTTIME"]
TARGETS += ["TIMESTAMP", "GMTTIMESTAMP", "INTERVAL"]


@given(st.sampled_from(OPERATIONS), WORLD, WORLD)
@settings(max_examples=300, deadline=None)
def test_any_operation_on_any_values_answers_or_raises_an_esql_error(operation: Any, a: Any, b: Any) -> None:
    try:
        operation(a, b)
    except EsqlRunError as failure:
        assert str(failure)


@given(WORLD, st.sampled_from(TARGETS), st.sampled_from(["", "#,##0.00", "yyyyMMdd", "I", "0.0E0"]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_cast_of_any_value_answers_or_raises_an_esql_error(value: Any, target: str, form: str, coded: bool) -> None:
    try:
        cast(
            value,
            target,
            precision=9 if coded else None,
            scale=2,
            qualifier="DAY TO SECOND",
            ccsid=500 if coded else None,
            format=form or None,
        )
    except EsqlRunError as failure:
        assert str(failure)
