# SPDX-License-Identifier: Apache-2.0
"""What the five documents are called in the report."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import yaml

from entrepot.workbench.scenario import DOCUMENTS

_SHORT = {
    "nstl": "NSTL",
    "wbimb": "Message Broker V5",
    "wmq": "WebSphere MQ V5.3",
    "csiro": "CSIRO",
    "sonicmq": "SonicMQ",
}


@dataclass(frozen=True, slots=True)
class Document:
    folder: str
    """Of its scenarios."""
    title: str
    year: int
    short: str


def documents() -> dict[str, Document]:
    """Folder → document, in the order of the catalogue."""
    told = yaml.safe_load(files("entrepot.workbench").joinpath("documents", "documents.yaml").read_text("utf-8"))
    return {
        folder: Document(folder, told[folder]["title"], int(told[folder]["year"]), _SHORT[folder])
        for folder in DOCUMENTS
    }
