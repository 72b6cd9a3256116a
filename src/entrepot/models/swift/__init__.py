# SPDX-License-Identifier: Apache-2.0
"""SWIFT's FIN messages: the set SWIFT, with MT103, MT543 and MT940 in the format TDS1.

Reading order: format_notation.py and field_formats.py (what a field may
contain), the YAML files and rules.py (which fields a message has), tables.py
and codec.py (bytes and tree), validation.py (what is wrong with a message, and
where), model.py (all of it as a message set).
"""

from __future__ import annotations

from functools import cache

from entrepot.models.logical import MessageSet
from entrepot.models.swift.field_formats import FieldFormat, FormatMistake
from entrepot.models.swift.model import swift_set
from entrepot.models.swift.rules import MESSAGES, field_formats
from entrepot.models.swift.validation import require_valid, validate

__all__ = [
    "MESSAGES",
    "FieldFormat",
    "FormatMistake",
    "field_formats",
    "load_swift",
    "require_valid",
    "validate",
]


@cache
def load_swift() -> MessageSet:
    """The message set SWIFT, made once."""
    return swift_set()
