# SPDX-License-Identifier: Apache-2.0
"""The text of an error, also of one whose own text cannot be had."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError

TEXT_CHARACTERS_MAX = 4000


def error_text(error: BaseException | None) -> str:
    """What went wrong, as text that every message property and log can hold.

    Code that is not ours may raise an error whose `__str__` raises, returns megabytes or has half a surrogate pair in
    it. None of that may keep the message it failed on from being set aside.
    """
    try:
        text = error.what if isinstance(error, EntrepotError) else str(error)
        text = text[:TEXT_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()
    except BaseException:
        text = ""
    return text or type(error).__name__
