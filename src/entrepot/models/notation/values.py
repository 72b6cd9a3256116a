# SPDX-License-Identifier: Apache-2.0
"""Defaults and enumerations in the notation: whether a value fits its type."""

from __future__ import annotations

import re

from entrepot.models.logical import Simple, ValueType
from entrepot.models.notation.mistakes import wrong
from entrepot.yaml_places import Written

_FORMS = {
    ValueType.INTEGER: (re.compile(r"[+-]?\d+", re.ASCII), "a whole number"),
    ValueType.DECIMAL: (re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII), "a decimal number"),
    ValueType.FLOAT: (re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-?INF|NaN", re.ASCII), "a number"),
    ValueType.BOOLEAN: (re.compile("true|false|1|0"), "true or false"),
    ValueType.BINARY: (re.compile("([0-9A-Fa-f]{2})*"), "bytes in hexadecimal"),
}


def check_value(text: str, simple: Simple, node: Written) -> None:
    """Refuse a value that its own type does not allow."""
    form = _FORMS.get(simple.type)
    if form is not None and not form[0].fullmatch(text):
        wrong(node, f"{text[:60]!r} is not {form[1]}")
    if simple.length_max is not None and simple.type is ValueType.STRING and len(text) > simple.length_max:
        wrong(node, f"{text[:60]!r} is longer than {simple.length_max} characters")
    if simple.values and text not in simple.values:
        wrong(node, f"{text[:60]!r} is none of the values {', '.join(simple.values)}")
