# SPDX-License-Identifier: Apache-2.0
"""Errors on the wire: a code and the values of the fields, never a class name to import or code to run."""

from __future__ import annotations

from typing import Any

from entrepot import errors
from entrepot.errors import EntrepotError, FrameUnreadable

_ERROR = "error"


def _tree(kind: type[EntrepotError]) -> list[type[EntrepotError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _tree(child))]


_KINDS = {kind.code: kind for kind in _tree(EntrepotError) if kind.__module__.startswith(errors.__name__)}


def to_wire(error: EntrepotError) -> dict[str, list[Any]]:
    """An error as plain values."""
    _, values = error.__reduce__()
    return {_ERROR: [error.code, *(_plain(value) for value in values)]}


def _plain(value: Any) -> Any:
    if isinstance(value, EntrepotError):
        return to_wire(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def from_wire(form: Any) -> EntrepotError:
    """The error that a form tells of.

    Raises:
        ProtocolError: It tells of none that we know.
    """
    try:
        code, *values = form[_ERROR]
        error = _KINDS[code](*(_restored(value) for value in values))
        str(error)  # values of other types than its text needs would surprise whoever shows it
        return error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        raise FrameUnreadable("an error that this version does not know") from None


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return from_wire(value)
    if isinstance(value, list):
        return tuple(_restored(item) for item in value)
    return value
