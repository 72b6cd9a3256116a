# SPDX-License-Identifier: Apache-2.0
"""What the five documents are called in the report."""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.workbench import published
from entrepot.workbench.scenario import DOCUMENTS

_SHORT = {
    "nstl": "NSTL",
    "wbimb": "Message Broker V5",
    "wmq": "WebSphere MQ V5.3",
    "csiro": "CSIRO",
    "sonicmq": "SonicMQ",
}


@dataclass(frozen=True, slots=True)
class ReportDocument:
    folder: str
    """Of its scenarios."""
    title: str
    year: int
    short: str


def documents() -> dict[str, ReportDocument]:
    """Folder → document, in the order of the catalogue."""
    known = published.documents()
    return {
        folder: ReportDocument(folder, known[folder].title, known[folder].year, _SHORT[folder]) for folder in DOCUMENTS
    }
