# SPDX-License-Identifier: Apache-2.0
"""The broker document's cases as examples/broker has them: flows, messages, and what was published for each."""

from __future__ import annotations

import csv
import importlib
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

import broker_messages
from conversions import bodies, model
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.loading import load_flow
from entrepot.message import Message
from entrepot.models import register_set
from entrepot.models.headers.mqrfh2 import MQRFH2
from entrepot.models.tree import Element, Folder

HERE = Path(__file__).resolve().parent
FLOWS = HERE.parent / "examples" / "broker"
SOURCE = "wbimb-hpux-v5"
TABLES = (
    "CREATE TABLE stock (id integer PRIMARY KEY, quantity integer)",
    "CREATE TABLE journal (id integer, text varchar(200))",
)
STOCK_ROWS = 1000


@dataclass(frozen=True)
class Case:
    """One measurement of the document."""

    name: str
    table: str
    flows: tuple[str, ...]
    message: str
    sizes: tuple[int, ...] = (1024, 4096)
    instances: int = 0
    groups: int = 1
    subscribers: int = 0
    content: str = ""
    database: bool = False
    echo: str = ""
    """A queue whose requests somebody has to answer."""

    def definitions(self) -> list[FlowDefinition]:
        return [load_flow(FLOWS / f"{flow}.yaml") for flow in self.flows]

    def body(self, size: int) -> Message:
        return message_of(self.message, size)


@cache
def cases() -> dict[str, Case]:
    told: dict[str, dict[str, Any]] = yaml.safe_load((FLOWS / "cases.yaml").read_text())
    return {
        name: Case(
            name,
            **{key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()},
        )
        for name, facts in told.items()
    }


@cache
def _formats() -> dict[str, bytes]:
    return bodies(register_set(model()))


@cache
def message_of(kind: str, size: int) -> Message:
    """A message of a kind; what has 4 KB in the document has it here whatever is asked for."""
    if kind in ("cwf", "mrm_xml", "tds"):
        return Message(_formats()[{"cwf": "CWF1", "mrm_xml": "XML1", "tds": "TDS1"}[kind]])
    if kind == "mt543":
        sys.path.append(str(HERE.parent / "tests" / "golden" / "models"))
        made: bytes = importlib.import_module("swift_messages").mt543(6449)
        return Message(made)
    if kind == "tagged":
        return _tagged(size)
    body: bytes = getattr(broker_messages, kind)(size)
    return Message(body)


def _tagged(size: int) -> Message:
    """With an MQRFH2 of two tags before the body."""
    header = Folder(MQRFH2, None, ccsid=1208, encoding=546)
    for name, value in (("Format", ""), ("Encoding", 546), ("CodedCharSetId", 1208)):
        header.append(Element(name, value))
    tags = header.add("usr")
    tags.add("colour", "red")
    tags.add("shape", "round")
    written = header.render()
    return Message(written + broker_messages.flat(size - len(written)), format="MQHRF2")


@cache
def published() -> dict[tuple[str, str, int, str], float]:
    """(table, persistence, bytes, metric) → value, for one instance where the document has several."""
    found: dict[tuple[str, str, int, str], float] = {}
    with (HERE / "published.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["source"] == SOURCE and row["message_bytes"]:
                key = (row["table"], row["qos"], int(row["message_bytes"]), row["metric"])
                found[key] = float(row["value"])
    return found
