# SPDX-License-Identifier: Apache-2.0
"""Signs beside figures: numbers for durability contracts, the same in the whole report, and letters for the rest."""

from __future__ import annotations

from entrepot.workbench.report.findings_index import FindingsIndex


class Letters:
    """The notes of one table, in the order in which they are needed; the same words share a letter."""

    def __init__(self) -> None:
        self._signs: dict[str, str] = {}

    def letter(self, text: str) -> str:
        return self._signs.setdefault(text, _letters(len(self._signs)))

    def all(self) -> list[tuple[str, str]]:
        return [(sign, text) for text, sign in self._signs.items()]


class Notes(Letters):
    """With the contracts that stand beside the table's figures."""

    def __init__(self, index: FindingsIndex) -> None:
        super().__init__()
        self._index = index
        self._numbers: set[int] = set()

    def contract(self, system: str, quality: str) -> list[str]:
        found = self._index.contracts.get((system, quality))
        if found is None:
            return []
        self._numbers.add(found)
        return [str(found)]

    def all(self) -> list[tuple[str, str]]:
        contracts = [(str(found), self._index.contract_text(found)) for found in sorted(self._numbers)]
        return contracts + super().all()


def _letters(place: int) -> str:
    """a … z, aa, ab …"""
    text = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
