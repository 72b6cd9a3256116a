# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: a function that takes any bytes, and inputs to begin with."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from entrepot.errors import EntrepotError


@dataclass(frozen=True)
class Target:
    """One reader of bytes that come from strangers.

    `read` may raise EntrepotError, which is how we refuse, and what `refusals` names. Anything else, and an assertion
    that fails, is a finding.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    per_second: int
    """About how many inputs it reads in a second: a campaign gives every target the same time."""
    bytes_max: int = 4096
    refusals: tuple[type[Exception], ...] = ()
    """What else it says that it raises, for the caller of the same room."""

    def run(self, data: bytes) -> None:
        """Read one input.

        Raises:
            Exception: A finding.
        """
        with contextlib.suppress(EntrepotError, *self.refusals):
            self.read(data)


_LENGTH = struct.Struct("<H")


def join_pieces(*pieces: bytes) -> bytes:
    """Pieces with their lengths, so that a changed byte of one leaves the others where they are."""
    return b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def split_pieces(data: bytes) -> Iterator[bytes]:
    """The pieces again; whatever the data is, it has some."""
    while len(data) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data)
        yield data[_LENGTH.size : _LENGTH.size + length]
        data = data[_LENGTH.size + length :]


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
