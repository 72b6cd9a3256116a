# SPDX-License-Identifier: Apache-2.0
"""What the measured systems promise, and how they were set up."""

from __future__ import annotations

from collections.abc import Mapping

from entrepot.workbench.report.blocks import Cell, Column, Section, TableBlock, heads, table, words
from entrepot.workbench.report.findings_index import FindingsIndex
from entrepot.workbench.report.wording import QUALITIES, listed, sentence


def promises_section(index: FindingsIndex) -> Section | None:
    """None when no trial gave a figure."""
    if not index.contracts:
        return None
    settings = Section("settings", "Versions and settings", [_settings_table(index)], 4, "closed", contents="no")
    return Section("systems", "Systems and their promises", [_contracts_table(index), settings], 3)


def _contracts_table(index: FindingsIndex) -> TableBlock:
    """A row for each contract, for all systems that promise it; the numbers are those that stand beside figures."""
    rows = []
    order = list(QUALITIES)
    for place in sorted(set(index.contracts.values())):
        of_contract = [key for key, number in index.contracts.items() if number == place]
        systems = dict.fromkeys(index.short_title_of(system) for system, _ in of_contract)
        qualities = sorted({quality for _, quality in of_contract}, key=order.index)
        rows.append(
            [
                str(place),
                listed(systems),
                listed(QUALITIES.get(quality, quality) for quality in qualities),
                sentence(index.contract_text(place).partition(": ")[2]),
            ]
        )
    columns = [
        Column("Contract", heads_row=True),
        words("System"),
        words("Quality"),
        words("What is promised when it answers"),
    ]
    return table("The number of a contract stands beside every figure that was measured under it.", columns, rows)


def _settings_table(index: FindingsIndex) -> TableBlock:
    seen: dict[str, dict[str, Mapping[str, str]]] = {}
    versions: dict[str, str] = {}
    for row in index.findings.systems:
        seen.setdefault(row.system, {})[row.quality] = row.settings
        versions[row.system] = row.version
    measured = sorted({system for system, _ in index.contracts}, key=index.place_of_system)
    rows: list[list[Cell | str]] = [
        [
            Cell(index.short_title_of(system), versions.get(system, "")),
            "; ".join(_settings(seen.get(system, {}))) or "as it comes",
        ]
        for system in measured
    ]
    columns = [heads("System", "version"), words("Settings")]
    return table("How each system was set up; what holds for one quality only says so.", columns, rows)


def _settings(qualities: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Each setting once; with its qualities where they differ."""
    texts = []
    for name in dict.fromkeys(name for settings in qualities.values() for name in settings):
        values: dict[str, list[str]] = {}
        for quality, settings in qualities.items():
            if name in settings:
                values.setdefault(settings[name], []).append(QUALITIES.get(quality, quality))
        for value, those in values.items():
            texts.append(f"{name}: {value}" + ("" if len(those) == len(qualities) else f" ({listed(those)})"))
    return texts
