# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from entrepot.cli.demo_verdict import judge, ranges

from .conftest import Shell


def test_demo_proves_its_claim(shell: Shell) -> None:
    told = shell.json("demo", "--orders", "200")
    assert told["holds"]
    assert told["queues"]["shipped"]["messages"] == 199
    assert told["queues"]["backout"] == {"messages": 1, "orders": "51"}
    assert told["acknowledged_before_kill"] >= 90
    assert told["restart"]["replayed_records"] > 200


def test_demo_tells_its_story_and_keeps_the_folder_when_asked(shell: Shell) -> None:
    said = shell("demo", "--orders", "40", "--keep").stdout
    for part in ("SIGKILL", "Recovered in", "Nothing lost, nothing twice", "fdatasync", "1–10, 12–40"):
        assert part in said
    path = Path(said.split("entrepot browse ")[-1].split()[0])
    try:
        assert len(shell.lines("browse", path, "SHIPPED")) == 39
    finally:
        shutil.rmtree(path.parent)


def test_demo_fails_when_the_claim_does_not_hold(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from entrepot.cli import demo

    honest = demo._Story._read_all

    def forgetful(story: demo._Story) -> dict[str, list[int]]:
        found = honest(story)
        found["shipped"].remove(7)
        return found

    monkeypatch.setattr(demo._Story, "_read_all", forgetful)
    assert shell.json("demo", "--orders", "40", code=1)["verdict"]["lost"] == [7]


def test_demo_wants_enough_orders(shell: Shell) -> None:
    shell("demo", "--orders", "3", code=2)


def verdict_of(
    end: dict[str, list[int]], restart: dict[str, list[int]] | None = None, acknowledged: tuple[int, ...] = ()
):
    return judge(
        4,
        2,
        acknowledged=set(acknowledged),
        in_flight_max=1,
        after_restart=restart or {"orders": [1, 2, 3, 4], "shipped": [], "backout": []},
        at_the_end=end,
    )


GOOD = {"orders": [], "shipped": [1, 3, 4], "backout": [2]}


def test_verdict_holds_when_every_order_is_where_it_belongs() -> None:
    assert verdict_of(GOOD).holds


@pytest.mark.parametrize(
    ("end", "broken"),
    [
        ({**GOOD, "shipped": [1, 3]}, "lost"),
        ({**GOOD, "shipped": [1, 3, 4, 4]}, "twice"),
        ({**GOOD, "shipped": [1, 3, 4, 5]}, "unknown"),
        ({**GOOD, "orders": [4], "shipped": [1, 3]}, "left"),
        ({**GOOD, "shipped": [1, 2, 3, 4], "backout": []}, "misplaced"),
    ],
)
def test_verdict_finds_what_is_wrong_at_the_end(end: dict[str, list[int]], broken: str) -> None:
    verdict = verdict_of(end)
    assert getattr(verdict, broken)
    assert not verdict.holds


def test_verdict_finds_what_is_wrong_after_the_restart() -> None:
    nothing_shipped = {"orders": [1, 2, 3, 4], "shipped": [], "backout": []}
    assert verdict_of(GOOD, nothing_shipped, acknowledged=(1,)).taken_back == [1]
    assert verdict_of(GOOD, {"orders": [2, 4], "shipped": [1, 3], "backout": []}).invented == 1
    assert verdict_of(GOOD, {"orders": [2, 4], "shipped": [1], "backout": []}).lost == [3]


def test_ranges() -> None:
    assert ranges([3, 1, 2, 7, 9, 10]) == "1–3, 7, 9–10"
    assert ranges([]) == "none"
