# SPDX-License-Identifier: Apache-2.0
"""Many small cases as one test.

    @for_each(("text", "value"), [("1", 1), ("0x1", 1)])
    def test_literal_has_the_value_of_its_text(text, value): ...

It is written as `pytest.mark.parametrize` is. A case of pytest's costs some milliseconds in every process of a run,
and thousands of ours take less than that by themselves. All cases run; those that fail are reported together, each
with its own traceback and its name. Fixtures are shared by the cases of a test, so this is for tests that leave
nothing behind.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(
    names: str | Sequence[str], cases: Iterable[Any], ids: Iterable[str] | Callable[[Any], Any] | None = None
) -> Callable[[Test], Test]:
    """Run a test with each of the cases."""
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_row(case, len(names)) for case in cases]
    listed = [] if ids is None or callable(ids) else list(ids)
    write = ids if callable(ids) else reprlib.repr

    def title(index: int) -> str:
        return listed[index] if listed else "-".join(str(write(value)) for value in rows[index])

    def fold(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for index, row in enumerate(rows):
                try:
                    test(**fixtures, **dict(zip(names, row, strict=True)))
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"in the case [{title(index)}]")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases failed", failures)

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return fold


def _row(case: Any, width: int) -> tuple[Any, ...]:
    if isinstance(case, type(pytest.param())):
        assert not case.marks, "marks are for tests, not for cases that share one"
        return tuple(case.values)
    return (case,) if width == 1 else tuple(case)
