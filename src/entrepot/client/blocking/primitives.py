# SPDX-License-Identifier: Apache-2.0
"""What differs between threads and tasks; `entrepot.client.aio.primitives` is its twin."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

Lock = threading.Lock
sleep = time.sleep


def at_once(begin: Callable[[], Any]) -> None:
    """Begin something at once where that can be waited for, as it can here."""
    begin()


def apart(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Run what blocks: here nothing else has to go on meanwhile."""
    return function(*args, **kwargs)


def for_threads(served: Result) -> Result:
    """An object for other threads; here all of them may use it as it is."""
    return served
