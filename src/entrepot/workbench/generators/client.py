# SPDX-License-Identifier: Apache-2.0
"""A client of the measured system, as a load sees it: number and role, the gate, and where it notes what happens."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from entrepot.workbench.generators.gate import StartGate
from entrepot.workbench.measuring.observations import CALLS, RECEIVED, SENT, ObservationRows
from entrepot.workbench.systems.system import System

HEADER_BYTES = 8
_NUMBER_BITS = 48
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1


class Client:
    """One thread of a generator. Whatever it noted is written when its function returns."""

    def __init__(self, role: str, number: int, slot: int, system: System, gate: StartGate, folder: Path) -> None:
        self.role = role
        self.number = number
        """From 0, among the clients of its role."""
        self.system = system
        self.gate = gate
        self._slot = slot
        self._folder = folder
        self._noted: dict[str, ObservationRows] = {}

    @cached_property
    def sent(self) -> ObservationRows:
        return self._noted.setdefault("sent", ObservationRows(SENT))

    @cached_property
    def received(self) -> ObservationRows:
        return self._noted.setdefault("received", ObservationRows(RECEIVED))

    @cached_property
    def calls(self) -> ObservationRows:
        return self._noted.setdefault("calls", ObservationRows(CALLS))

    def count(self, total: int) -> None:
        """Tell the leader how many messages this client has sent or seen."""
        self.gate.count(self._slot, total)

    def waited(self, total_ns: int) -> None:
        """Tell the sampler how long this client has been inside of calls that ask for messages."""
        self.gate.wait_told(self._slot, total_ns)

    def write(self) -> None:
        for kind, notes in self._noted.items():
            notes.write(self._folder / f"{self.role}-{self.number}.{kind}.raw")


def padding(message_bytes: int) -> bytes:
    """What follows the header; random, so that no system can squeeze it."""
    return os.urandom(max(message_bytes - HEADER_BYTES, 0))


def header(sender: int, number: int) -> bytes:
    return (sender << _NUMBER_BITS | number).to_bytes(HEADER_BYTES, "big")


def read_header(body: Any) -> tuple[int, int]:
    """(sender, number) of a body."""
    value = int.from_bytes(body[:HEADER_BYTES], "big")
    return value >> _NUMBER_BITS, value & _NUMBER_MASK
