# SPDX-License-Identifier: Apache-2.0
"""What a trial leaves beside its observations: trial.json, and run.json above all of them.

A trial is one load on one running system, a visit one start of a system in
a fresh process; most visits have one trial, a search has one for each
probe. A trial that failed or cannot be trusted is kept and marked: it gives
no figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from entrepot.errors import RunNotFound

FORMAT_VERSION = 1
Status = Literal["measured", "invalid", "failed"]


class TrialRecord(msgspec.Struct, kw_only=True, frozen=True):
    format_version: int = FORMAT_VERSION
    run: str
    host: str
    """The fingerprint of environment.py; figures of different hosts are never divided by each other."""
    visit: str
    trial: str
    """Unique over all runs; the name of its folder."""
    scenario: str
    document: str
    table: str
    load: str
    system: str
    title: str
    quality: str
    contract: str
    version: str
    settings: dict[str, str]
    point: str
    """Point.key: the published parameters."""
    parameters: dict[str, str]
    """The published parameters, as text."""
    effective: dict[str, str]
    """What was run; differs where the machine cannot hold the case."""
    reduced: str = ""
    scale: str
    repetition: int
    probe: int = 0
    offered_per_s: float | None = None
    """The programmed rate of an open or rated loop."""
    begun_ns: int
    """The gate was opened; of the monotonic clock, as all times."""
    ended_ns: int
    """The generators stopped sending; what was under way may arrive later."""
    status: Status = "measured"
    reason: str = ""
    others_share: float | None = None
    """Of all processors, what processes outside of the trial used while it lasted; None when it was too short."""
    busy: str = ""
    """The mark of a trial beside which others used too much (quiet.py); its figure carries it."""
    facts: dict[str, float] = {}
    """Measured once a trial and not per message: memory per client, the MST that a search found …"""
    evidence: dict[str, str] = {}
    """What a verdict rests on, in words."""


class RunRecord(msgspec.Struct, kw_only=True, frozen=True):
    format_version: int = FORMAT_VERSION
    run: str
    begun: str
    """ISO 8601, UTC."""
    scale: str
    scenarios: list[str]
    systems: list[str]
    host: str
    environment: dict[str, str]
    """environment.py: what the figures depend on, flat, as text."""
    absent: dict[str, str] = {}
    """Systems that were asked for and are not installed, and what is missing."""
    seconds: float | None = None
    repetitions: int | None = None
    refuse_busy: bool = False
    """Whether a trial that others disturbed gives no figure, and not only a mark."""
    repeat: str = "fixed"
    """The rule by which more repetitions were added: running/repeating.py."""


def write_record(path: Path, record: TrialRecord | RunRecord) -> None:
    """Whole or not at all, so that a run that is interrupted here can be resumed."""
    written = path.with_suffix(".new")
    written.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    written.replace(path)


def read_run(folder: Path) -> RunRecord:
    try:
        return msgspec.json.decode((folder / "run.json").read_bytes(), type=RunRecord)
    except FileNotFoundError:
        raise RunNotFound(str(folder), "there is no run.json") from None
    except msgspec.MsgspecError as error:
        raise RunNotFound(str(folder), f"run.json: {error}") from error


def read_trials(folder: Path) -> dict[str, TrialRecord]:
    """Trial → record, for all trials that came to an end."""
    return {path.parent.name: read_trial(path) for path in sorted((folder / "trials").glob("*/trial.json"))}


def read_trial(path: Path) -> TrialRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=TrialRecord)
    except msgspec.MsgspecError as error:
        raise RunNotFound(str(path.parent.parent.parent), f"{path.parent.name}/trial.json: {error}") from error


def as_texts(parameters: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in parameters.items()}
