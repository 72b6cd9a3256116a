# SPDX-License-Identifier: Apache-2.0
"""Test files run, case by case: each in a world of its own, each with a verdict and what is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from entrepot.errors import EntrepotError, UserException
from entrepot.errors.describing import error_text
from entrepot.esql.user_functions import watching_interrupts
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import TOPIC
from entrepot.flows.loading import load_flow
from entrepot.flows.memory_world import DEAD_LETTERS
from entrepot.flows.trials import differences
from entrepot.flows.trials.cases import CaseFile, Expected, Stubbed, TrialCase, TrialSettings, TrialStep
from entrepot.flows.trials.flow_test import FlowTest
from entrepot.flows.trials.result import FlowResult, descriptor_differences, tree_differences
from entrepot.message import Message


@dataclass(slots=True)
class CaseVerdict:
    """What came of one case."""

    file: str
    case: str
    where: str
    problems: list[str] = field(default_factory=list)
    """Each with the step that it belongs to; none when the case passed."""
    elapsed_ms: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.problems


def run_test_file(
    test_file: CaseFile, *, only: str = "", projects: Sequence[Path] = (), java: Mapping[str, str] | None = None
) -> Iterator[CaseVerdict]:
    """The verdicts of a file's cases, of those with `only` in their names; the rest is as for `load_flow`.

    Raises:
        FlowInvalid: The flow itself is wrong, so that no case can run.
    """
    flow = load_flow(test_file.flow, projects=projects, java=java)
    for case in test_file.cases:
        if only.lower() in case.name.lower():
            yield _judged(str(test_file.path), case, flow)


def _judged(file: str, case: TrialCase, flow: FlowDefinition) -> CaseVerdict:
    verdict = CaseVerdict(file, case.name, case.where)
    began = time.perf_counter()
    try:
        trial = _prepared(case.settings, flow)
        for number, step in enumerate(case.steps, 1):
            at = f"step {number}: " if len(case.steps) > 1 else ""
            with watching_interrupts():
                verdict.problems += [f"{at}{problem}" for problem in _step_problems(trial, step)]
    except EntrepotError as error:
        verdict.problems.append(str(error))
    except Exception as error:
        verdict.problems.append(f"{type(error).__name__}: {error_text(error)}")
    verdict.elapsed_ms = round((time.perf_counter() - began) * 1000, 3)
    return verdict


def _prepared(settings: TrialSettings, flow: FlowDefinition) -> FlowTest:
    trial = FlowTest(
        flow, databases=settings.databases or None, now=settings.now, user_properties=settings.properties or None
    )
    for queue, facts in settings.queues.items():
        trial.limit(queue, **{"dead_letter_queue": DEAD_LETTERS, **facts})
    for node, stub in settings.stubs.items():
        trial.stub(node, _function(stub), domain=stub.domain)
    for queue, body, descriptor in settings.put:
        trial.put(queue, body, **descriptor)
    return trial


def _function(stub: Stubbed) -> Any:
    if stub.error:
        return UserException(stub.error, number=stub.number, inserts=(stub.error,), place="stub")
    return (stub.to, stub.body) if stub.to else stub.body


def _step_problems(trial: FlowTest, step: TrialStep) -> list[str]:
    if step.action == "pass_time":
        result = trial.pass_time(step.seconds)
    elif step.action == "run_all":
        result = trial.run_all()
    else:
        result = trial.feed(step.to, step.body, **step.descriptor)
    problems = [
        *_message_problems(step.outputs, result.outputs, "on"),
        *_message_problems(step.published, result.published, "published on"),
        *_other_problems(step, result),
        *_failure_problems(step, result),
    ]
    if step.path is not None and step.path != result.path:
        problems.append(f"path: expected {' → '.join(step.path)}")
    problems += [
        f"trace: expected {text!r}, found {differences.shown(result.trace)}"
        for text in step.trace or ()
        if not any(text in line for line in result.trace)
    ]
    if problems:
        problems.append(f"its way: {' → '.join(result.path) or 'nowhere'}")
        problems += [f"error at {failure.node}: {failure.error}" for failure in result.failures]
    return problems


def _message_problems(
    expected: dict[str, list[Expected]] | None, found: dict[str, list[Message]], preposition: str
) -> list[str]:
    problems: list[str] = []
    for destination, wanted in (expected or {}).items():
        there = found.get(destination, [])
        if len(there) != len(wanted):
            bodies = "; ".join(differences.shown(message.body) for message in there)
            suffix = f": {bodies}" if bodies else ""
            problems.append(f"{preposition} {destination}: expected {len(wanted)} messages, found {len(there)}{suffix}")
            continue
        for number, (one, message) in enumerate(zip(wanted, there, strict=True), 1):
            which = f"{preposition} {destination}" + (f", message {number}" if len(there) > 1 else "")
            problems += [f"{which}: {line}" for line in _differences(one, message)]
    return problems


def _differences(expected: Expected, message: Message) -> list[str]:
    checks = dict(expected.checks)
    lines: list[str] = []
    if "body" in checks:
        lines += differences.of_bytes(checks.pop("body"), message.body)
    if "xml" in checks:
        lines += differences.of_xml(checks.pop("xml"), message.body)
    if "json" in checks:
        lines += differences.of_json(checks.pop("json"), message.body)
    model = {f"message_{name}": str(value) for name, value in checks.pop("model", {}).items()}
    if "tree" in checks:
        lines += tree_differences(checks.pop("tree"), message, model)
    return lines + descriptor_differences(checks, message)


def _other_problems(step: TrialStep, result: FlowResult) -> list[str]:
    """Unexpected messages, where the step says at all what it expects."""
    if step.others or (step.outputs is None and step.published is None):
        return []
    named = {*(step.outputs or ()), *(TOPIC + topic for topic in step.published or ())}
    return [
        f"not expected on {destination}: {differences.shown(message.body)}"
        for destination, message in result.sent
        if destination not in named
    ]


def _failure_problems(step: TrialStep, result: FlowResult) -> list[str]:
    """Each word of `failures` names an error's class or code, or stands in its text; without any, none is expected."""
    found = [(type(each.error).__name__, getattr(each.error, "code", ""), str(each.error)) for each in result.failures]
    if step.failures is None:
        is_told = step.outputs is not None or step.published is not None
        return [] if is_told or not found else ["it failed, and the case does not say that it should"]
    problems = [
        f"failures: expected {word}"
        for word in step.failures
        if not any(word in (name, code) or word in text for name, code, text in found)
    ]
    if not step.failures and found:
        problems.append("failures: expected none")
    return problems
