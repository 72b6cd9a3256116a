# SPDX-License-Identifier: Apache-2.0
"""Measurements: what was asked for cannot be measured, or the number would lie."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class MeasurementError(EntrepotError):
    code = "M00"


class ScenarioUnknown(MeasurementError):
    name: str
    near: tuple[str, ...]
    code = "M01"

    @property
    def what(self) -> str:
        return f"there is no scenario {self.name!r}" + (f"; near it are {', '.join(self.near)}" if self.near else "")

    hint = "`entrepot bench list` shows them all; a pattern such as 'wmq/*' names several."


class ScenarioInvalid(MeasurementError):
    path: str
    key: str
    problem: str
    code = "M02"
    text = "{path}: {key} {problem}"
    hint = "Mend the file; docs/WORKBENCH.md describes what it may say."


class SystemUnknown(MeasurementError):
    name: str
    known: tuple[str, ...]
    code = "M03"

    @property
    def what(self) -> str:
        return f"there is no system {self.name!r}; there are {', '.join(self.known)}"

    hint = "`entrepot bench systems` tells which of them can run here."


class SystemAbsent(MeasurementError):
    name: str
    problem: str
    code = "M04"
    text = "{name} cannot run here: {problem}"
    hint = "`entrepot bench systems` tells what each system needs."


class SystemFailed(MeasurementError):
    name: str
    problem: str
    code = "M05"
    text = "{name} {problem}"
    hint = "Its trial counts as failed and gives no figure; the end of its log is above."


class GeneratorFailed(MeasurementError):
    role: str
    problem: str
    code = "M06"
    text = "a load generator ({role}) failed: {problem}"
    hint = "Whatever it had counted is worthless, so its trial gives no figure."


class RateNotSustainable(MeasurementError):
    problem: str
    code = "M07"
    text = "no sustainable rate was found: {problem}"
    hint = "The evidence of every probe is in the run's folder."


class HostsDiffer(MeasurementError):
    runs: tuple[str, ...]
    problem: str
    code = "M09"

    @property
    def what(self) -> str:
        return f"the runs {', '.join(self.runs)} are not of one machine: {self.problem}"

    hint = "Compare runs of one machine, or ask for them side by side without ratios: --hosts apart."


class RunNotFound(MeasurementError):
    path: str
    problem: str
    code = "M10"
    text = "{path} is no run of the workbench: {problem}"
    hint = "A run is the folder that `entrepot bench run` names at its end."


class RunChanged(MeasurementError):
    path: str
    problem: str
    code = "M11"
    text = "the run in {path} cannot be resumed: {problem}"
    hint = "Begin a new one with another --output."


class DiskTooFull(MeasurementError):
    path: str
    free_mib: int
    wanted_mib: int
    code = "M12"
    retryable = True
    text = "{path} has {free_mib} MiB free and the run may write {wanted_mib} MiB"
    hint = "Free some space, or put the run on another disk with --output."


class PortTaken(MeasurementError):
    system: str
    port: int
    code = "M13"
    retryable = True
    text = "{system} was to listen on port {port} of the loopback, and another process does so already"
    hint = "Leave --port out and a free one is taken, or name another."


class LoadUnsuitable(MeasurementError):
    system: str
    load: str
    problem: str
    code = "M14"
    text = "{system} cannot be put under the load {load}: {problem}"
    hint = "`entrepot bench list --systems` shows what fits."


class ReportImpossible(MeasurementError):
    path: str
    problem: str
    code = "M15"
    text = "no report can be made from {path}: {problem}"
    hint = "Measure first: entrepot bench run."
