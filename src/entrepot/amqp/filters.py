# SPDX-License-Identifier: Apache-2.0
"""What a receiver wants of a queue: the filters of its source."""

from __future__ import annotations

from typing import Any

from entrepot.amqp.codec import Described, Symbol, encode
from entrepot.amqp.conditions import INVALID_FIELD, Refusal
from entrepot.queues.criteria import Criteria
from entrepot.selectors import compile_selector

_SELECTOR = ("apache.org:selector-filter:string", 0x0000_468C_0000_0004)


def read_filters(filters: Any) -> tuple[Criteria | None, bytes | None]:
    """The criteria of a source's filter set, and those of its filters that we heed, for the answer.

    Filters of other kinds are not heeded, and their sender sees that they are
    missing from the answer, as the standard wants it.

    Raises:
        Refusal: A selector that is none, or is more than one.
        SelectorSyntaxError
    """
    if filters is None:
        return None, None
    if not isinstance(filters, dict):
        raise Refusal(INVALID_FIELD, "the filters of a source are no map")
    criteria: Criteria | None = None
    heeded: dict[Any, Any] = {}
    for name, described in filters.items():
        if not isinstance(described, Described) or described.descriptor not in _SELECTOR:
            continue
        named = isinstance(name, str) and name.isascii()
        if not named or not isinstance(described.value, str) or criteria is not None:
            raise Refusal(INVALID_FIELD, f"filter {name!s:.100} is no selector, or there is another one")
        criteria = Criteria(selector=compile_selector(described.value))
        heeded[Symbol(name)] = Described(Symbol(_SELECTOR[0]), described.value)
    return criteria, encode(heeded) if heeded else None
