# SPDX-License-Identifier: Apache-2.0
"""What fuzzing has kept, through every target once more; `make torture` looks for more of it (see __main__)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .corpus import FOLDER, read_corpus
from .running_loop import stop_all
from .target import join_pieces, split_pieces
from .targets import all_targets

CORPUS_BYTES_MAX = 300_000


@pytest.fixture(scope="module", autouse=True)
def _no_queue_manager_stays() -> Iterator[None]:
    yield
    stop_all()


TARGETS = {name: target for name, (_, target) in all_targets().items()}


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    failures = []
    for data in (*target.seeds, *read_corpus(name), b""):
        try:
            target.run(data)
        except Exception as failure:
            failure.add_note(f"with the input {data!r}")
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} inputs", failures)


def test_the_corpus_is_small_and_every_file_has_its_target() -> None:
    files = list(FOLDER.iterdir())
    assert {path.stem for path in files} <= set(TARGETS)
    assert sum(path.stat().st_size for path in files) < CORPUS_BYTES_MAX


def test_pieces_come_back() -> None:
    assert list(split_pieces(join_pieces(b"one", b"", b"three"))) == [b"one", b"", b"three"]
