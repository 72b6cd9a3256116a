# SPDX-License-Identifier: Apache-2.0
"""Where one record of a file ends and the next begins: whole files, delimiters, fixed lengths.

A delimiter that is *postfix* ends each record, and what follows the last one
is a record only if there is something. One that is *infix* stands between
records, so a file that ends with it has an empty record at its end. An empty
file is one empty record, whatever it is read as.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple

from entrepot import limits
from entrepot.errors import RecordTooLong

_PIECE_BYTES = 256 * limits.KIB


@dataclass(frozen=True, slots=True)
class Splitting:
    """How a file is cut into records."""

    kind: Literal["wholeFile", "delimited", "fixedLength"] = "wholeFile"
    delimiter: bytes = b""
    """Empty for line ends: LF, or CR and LF."""
    is_infix: bool = False
    length: int = 0


class FileRecord(NamedTuple):
    """A part of a file that becomes a message."""

    number: int
    """From 1."""
    offset: int
    end: int
    """Where the next one begins."""
    body: bytes
    delimiter: bytes | None
    """What separates it from the one before; None for the first."""
    is_last: bool


class RecordReader:
    """Goes through a file record by record, from wherever it is told."""

    def __init__(self, file: BinaryIO, name: str, size: int, splitting: Splitting) -> None:
        self._file = file
        self._name = name
        self._size = size
        self._how = splitting
        self.number = 1
        """Of the record that comes next."""
        self.offset = 0
        self._buffer = b""
        self._buffer_at = 0
        self._is_done = False
        self._before: bytes | None = None

    def seek(self, number: int, offset: int) -> None:
        """Go on with a record that begins at an offset."""
        self.number, self.offset = number, offset
        self._buffer, self._buffer_at = b"", offset
        self._is_done = number > 1 and offset >= self._size and not self._expects_empty_end()
        self._before = None
        if number > 1 and self._how.kind == "delimited":
            self._before = self._how.delimiter or self._line_end_before(offset)

    def _expects_empty_end(self) -> bool:
        return self._how.kind == "delimited" and self._how.is_infix

    def _line_end_before(self, offset: int) -> bytes:
        self._file.seek(max(0, offset - 2))
        return b"\r\n" if self._file.read(min(offset, 2)) == b"\r\n" else b"\n"

    def next(self) -> FileRecord | None:
        """The next record; None after the last.

        Raises:
            RecordTooLong: It is longer than a message may be. Nothing was skipped.
        """
        if self._is_done:
            return None
        start = self.offset
        if self._how.kind == "delimited":
            body, delimiter = self._delimited()
        else:
            body, delimiter = self._of_length(), b""
        end = start + len(body) + len(delimiter)
        is_last = end >= self._size and not (delimiter and self._how.is_infix)
        record = FileRecord(self.number, start, end, body, self._before, is_last)
        self.number, self.offset = self.number + 1, end
        self._before = delimiter or None
        self._is_done = is_last
        return record

    def _of_length(self) -> bytes:
        left = self._size - self.offset
        wanted = left if self._how.kind == "wholeFile" else min(left, self._how.length)
        if wanted > limits.BODY_BYTES_MAX:
            raise self._too_long()
        self._file.seek(self.offset)
        return self._file.read(wanted)

    def _delimited(self) -> tuple[bytes, bytes]:
        delimiter = self._how.delimiter or b"\n"
        searched = self.offset
        while True:
            at = self._buffer.find(delimiter, searched - self._buffer_at)
            if at >= 0:
                break
            # A delimiter may be cut by the end of what was read.
            searched = max(self.offset, self._buffer_at + len(self._buffer) - len(delimiter) + 1)
            if searched - self.offset > limits.BODY_BYTES_MAX:
                raise self._too_long()
            if not self._read_on():
                return self._buffer[self.offset - self._buffer_at :], b""
        body = self._buffer[self.offset - self._buffer_at : at]
        if len(body) > limits.BODY_BYTES_MAX:
            raise self._too_long()
        if not self._how.delimiter and body.endswith(b"\r"):
            return body[:-1], b"\r\n"
        return body, delimiter

    def _read_on(self) -> bool:
        self._buffer, self._buffer_at = self._buffer[self.offset - self._buffer_at :], self.offset
        at = self._buffer_at + len(self._buffer)
        left = self._size - at
        if left <= 0:
            return False
        self._file.seek(at)
        # Ever larger pieces, so that a long record is not copied again and again.
        piece = self._file.read(min(left, max(_PIECE_BYTES, len(self._buffer))))
        self._buffer += piece
        if not piece:
            self._size = at  # the file was cut short
        return bool(piece)

    def _too_long(self) -> RecordTooLong:
        return RecordTooLong(self._name, self.number, self.offset, limits.BODY_BYTES_MAX)
