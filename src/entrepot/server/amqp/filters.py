# SPDX-License-Identifier: Apache-2.0
"""What a receiver wants of a queue or a topic: the filters of its source."""

from __future__ import annotations

from typing import Any, NamedTuple

from entrepot.engine.criteria import Criteria
from entrepot.engine.topics import compile_filter
from entrepot.selectors import ready_selector
from entrepot.server.amqp.codec import Described, Symbol, encode
from entrepot.server.amqp.conditions import INVALID_FIELD, Refusal

SELECTOR = "apache.org:selector-filter:string"
CONTENT_FILTER = "entrepot:content-filter:string"
_KINDS: dict[Any, str] = {SELECTOR: SELECTOR, 0x0000_468C_0000_0004: SELECTOR, CONTENT_FILTER: CONTENT_FILTER}


class Filters(NamedTuple):
    selector: str = ""
    content: str = ""
    criteria: Criteria | None = None
    """The selector, for a reader of a queue."""
    heeded: bytes = b""
    """Those that we heed, encoded for the answer."""


def read_filters(filters: Any, *, topic: bool = False) -> Filters:
    """The filter set of a source; only a topic's may ask for content.

    Filters of other kinds are not heeded, and their sender sees that they are
    missing from the answer, as the standard wants it.

    Raises:
        Refusal: A filter that is no text, or a second one of its kind.
        SelectorSyntaxError, ContentFilterSyntaxError
        NotCompiledYet: See `ready_selector`.
    """
    if filters is None:
        return Filters()
    if not isinstance(filters, dict):
        raise Refusal(INVALID_FIELD, "the filters of a source are no map")
    wanted: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, described in filters.items():
        kind = _kind(described)
        if not kind or (kind == CONTENT_FILTER and not topic):
            continue
        named = isinstance(name, str) and name.isascii()
        if not named or not isinstance(described.value, str) or kind in wanted:
            raise Refusal(INVALID_FIELD, f"filter {name!s:.100} is no text, or there is another one of its kind")
        wanted[kind] = str.__str__(described.value)
        names[kind] = name
    selector = ready_selector(wanted[SELECTOR]) if SELECTOR in wanted else None
    return Filters(
        selector.text if selector is not None else "",
        compile_filter(wanted[CONTENT_FILTER]).text if CONTENT_FILTER in wanted else "",
        Criteria(selector=selector) if selector is not None else None,
        encode_filters(wanted, names),
    )


def _kind(described: Any) -> str:
    if not isinstance(described, Described) or not isinstance(described.descriptor, int | str):
        return ""
    return _KINDS.get(described.descriptor, "")


def encode_filters(wanted: dict[str, str], names: dict[str, str]) -> bytes:
    """A filter set of texts by their kinds, under the names they were given; nothing when there is none."""
    if not wanted:
        return b""
    return encode({Symbol(names.get(kind, kind)): Described(Symbol(kind), text) for kind, text in wanted.items()})
