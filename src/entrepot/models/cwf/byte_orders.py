# SPDX-License-Identifier: Apache-2.0
"""How numbers lie in a message: what MQ's encoding number says about integers, packed decimals and floats.

The three parts are independent: 0x00F integers, 0x0F0 packed decimals, 0xF00
floats. 273 (0x111) is big-endian, 546 (0x222) little-endian, 785 (0x311) z/OS.
A part that says nothing (0) matters only to messages with such numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Endian = Literal["big", "little"]

_ENDIANS: dict[int, Endian] = {1: "big", 2: "little"}


@dataclass(frozen=True, slots=True)
class ByteOrders:
    """What an encoding number means; asking for what it does not say raises ValueError."""

    encoding: int

    @property
    def integer(self) -> Endian:
        return self._endian(self.encoding & 0xF, "integers")

    @property
    def packed(self) -> Endian:
        """Little: the bytes of a packed decimal lie in reverse, the sign first."""
        return self._endian(self.encoding >> 4 & 0xF, "packed decimals")

    @property
    def floating(self) -> Endian:
        return self._endian(self.encoding >> 8 & 0xF, "floats")

    @property
    def hexadecimal(self) -> bool:
        """Floats are System/390's, not IEEE's."""
        return self.encoding >> 8 & 0xF == 3

    def _endian(self, part: int, called: str) -> Endian:
        try:
            return _ENDIANS[part]
        except KeyError:
            raise ValueError(f"encoding {self.encoding} does not say how {called} lie") from None
