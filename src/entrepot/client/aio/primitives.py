# SPDX-License-Identifier: Apache-2.0
"""What differs between tasks and threads; `entrepot.client.blocking.primitives` is its twin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

Lock = asyncio.Lock
sleep = asyncio.sleep


def at_once(begin: Callable[[], Any]) -> None:
    """Begin something at once where that can be waited for; a task begins it when it asks for the outcome."""
    del begin


async def apart(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Run what blocks on a thread. It runs to its end in any case: databases must not be left in the middle."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def for_threads(served: Any) -> Any:
    """An object with coroutines, for other threads: each call waits until the event loop has run it."""
    return _Served(served)


class _Served:
    def __init__(self, served: Any) -> None:
        self._served = served
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, getattr(self._served, name))

    def _call(self, coroutine: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine(*args, **kwargs), self._loop).result()
