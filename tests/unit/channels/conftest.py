# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.channel_pair import Pair, copy_pair, new_pair, run
from unit.server.conftest import founded, house_path, inside

__all__ = ["founded", "house_path", "inside"]


@pytest.fixture(scope="session")
def pair_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two queue managers with a channel between them, to be copied."""
    path = tmp_path_factory.mktemp("channels") / "template"
    new_pair(path)
    return path


@pytest.fixture
def with_pair(pair_template: Path, tmp_path: Path) -> Callable[..., None]:
    """Run something with a pair of queue managers; keywords change the definitions of the channel's ends."""

    def open_and_run(
        work: Callable[[Pair], Awaitable[Any]], *, receiver: dict[str, Any] | None = None, **sender: Any
    ) -> None:
        if sender or receiver:
            new_pair(tmp_path / "pair", sender=sender, receiver=receiver)
        else:
            copy_pair(pair_template, tmp_path / "pair")
        run(tmp_path / "pair", work)

    return open_and_run
