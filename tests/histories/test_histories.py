# SPDX-License-Identifier: Apache-2.0
"""Rounds of load and trouble against a real server; both checkers judge what is left.

ENTREPOT_ROUNDS=300 pytest tests/histories -m torture     the campaign, with a line a round
ENTREPOT_NEMESES="kill|freeze"                            only these
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from channels.processes import until
from entrepot.engine.recovery_log.settings import LogSettings
from histories.actors import ROLES, Actor
from histories.nemeses import NEMESES
from histories.second_checker import problems
from histories.site import QUEUES, Site
from recovery.checker import Operation, Standing, check, read_stamp

ROUNDS_A_SITE = 15
# Checkpoints, switches and wraps all the time.
CIRCULAR = LogSettings(segment_bytes=128 * 1024, primary=3, secondary=5, checkpoint_bytes=150_000, buffer_bytes=16_384)
LINEAR = LogSettings(
    kind="linear", segment_bytes=128 * 1024, primary=3, secondary=200, checkpoint_bytes=150_000, buffer_bytes=16_384
)


@dataclass
class Campaign:
    """What was done, for the report."""

    rounds: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    messages: int = 0

    def __str__(self) -> str:
        troubles = ", ".join(f"{name} {count}" for name, count in sorted(self.rounds.items()))
        ends = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        return f"{self.rounds.total()} rounds ({troubles}); operations: {ends}; {self.messages} messages put"


def run_round(site: Site, number: int, name: str, random: Random) -> tuple[list[Operation], list[Standing], list[str]]:
    """Load, one nemesis in the middle, and everything that is left taken off the queues."""
    actors = [Actor(f"{role}@{number}", site.url, work, Random(random.random())) for role, work in ROLES.items()]
    for actor in actors:
        actor.start()
    time.sleep(random.uniform(0.1, 0.4))
    struck_at = time.monotonic()
    NEMESES[name].strike(site, random)
    mended_at = time.monotonic()
    must_live = NEMESES[name].survived
    assert site.is_running or not must_live, f"{name} ended the server: {site.last_words()}"
    site.heal()
    time.sleep(random.uniform(0.05, 0.2))
    for actor in actors:
        actor.stop()
    for actor in actors:
        actor.join()
    assert [actor.failure for actor in actors if actor.failure] == []
    if name == "cut the power":
        _doubt_answers_between(actors, struck_at, mended_at)
    drained, damaged = _drain(site)
    return (
        [operation for actor in actors for operation in actor.operations],
        drained,
        [*damaged, *(each for actor in actors for each in actor.damaged)],
    )


def _doubt_answers_between(actors: list[Actor], struck_at: float, mended_at: float) -> None:
    """Answers that raced the power cut may have come from a server whose disk was gone already."""
    for actor in actors:
        for place, ended_at in actor.ended_at.items():
            if struck_at <= ended_at <= mended_at:
                actor.operations[place].outcome = "unknown"


def _drain(site: Site) -> tuple[list[Standing], list[str]]:
    drained, damaged = [], []
    with site.administer() as connection:
        # A session that was cut off holds its messages until the server has noticed, and they would come last.
        until(lambda: connection.administration.manage("status")["connections"] == 1, "all other sessions have ended")
        for queue in QUEUES:
            # In a unit of work, whose commit waits for the disk: what was got outside of one is acknowledged later,
            # and comes again in the next round if its power is cut before that.
            with connection.unit_of_work() as unit:
                while (message := unit.get(queue)) is not None:
                    stamp = read_stamp(message.body)
                    if stamp is None:
                        damaged.append(queue)
                    else:
                        drained.append(Standing(queue, stamp))
    return drained, damaged


def run_site(folder: Path, seed: int, rounds: int, campaign: Campaign) -> None:
    random = Random(seed)
    folder.mkdir()
    linear = seed % 3 == 2
    with Site(folder, LINEAR if linear else CIRCULAR) as site:
        possible = [
            name
            for name, nemesis in NEMESES.items()
            if (site.has_own_disk or not nemesis.own_disk)
            and (linear or not nemesis.linear)
            and re.fullmatch(os.environ.get("ENTREPOT_NEMESES", ".*"), name)
        ]
        for number in range(rounds):
            # All of them in turn, beginning anywhere.
            name = possible[(number + seed * 7) % len(possible)]
            operations, drained, damaged = run_round(site, number, name, random)
            verdict = check(operations, drained, damaged, ordered=("ORDERED",))
            first = verdict.problems()
            second = problems(operations, drained, ordered=("ORDERED",))
            campaign.rounds[name] += 1
            campaign.outcomes.update(operation.outcome for operation in operations)
            campaign.messages += sum(len(operation.puts) for operation in operations if operation.outcome == "ok")
            print(f"seed {seed} round {number}: {name}, {len(operations)} operations, {first or 'sound'}", flush=True)
            assert not first, f"seed {seed}, round {number}, {name}: {verdict} {sorted(second)}"
            assert not second, f"seed {seed}, round {number}, {name}: the second checker finds {sorted(second)}"


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_doubled_torn_or_out_of_order_whatever_breaks(tmp_path: Path, seed: int) -> None:
    run_site(tmp_path / "site", seed, ROUNDS_A_SITE, Campaign())


@pytest.mark.parametrize(
    ("bug", "nemesis", "expected"),
    [("nothing is forced", "cut the power", "lost"), ("gets are not logged", "kill", "duplicated")],
)
def test_a_planted_bug_is_found_by_both_checkers(tmp_path: Path, bug: str, nemesis: str, expected: str) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    with Site(folder, CIRCULAR, bug) as site:
        if NEMESES[nemesis].own_disk and not site.has_own_disk:
            pytest.skip("only root can mount a disk that loses its power")
        for number in range(10):
            operations, drained, damaged = run_round(site, number, nemesis, Random(number))
            first, second = check(operations, drained, damaged).problems(), problems(operations, drained)
            if expected in first and expected in second:
                return
    raise AssertionError(f"ten rounds of {nemesis} did not show it")


@pytest.mark.torture
def test_the_campaign(tmp_path: Path) -> None:
    campaign = Campaign()
    rounds = int(os.environ.get("ENTREPOT_ROUNDS", "300"))
    for seed in range(100, 100 + -(-rounds // ROUNDS_A_SITE)):
        run_site(tmp_path / f"site-{seed}", seed, min(ROUNDS_A_SITE, rounds - campaign.rounds.total()), campaign)
    print(campaign)
