# SPDX-License-Identifier: Apache-2.0
"""The analysis on runs of known answers, and on random ones against a plain check that shares nothing with it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from entrepot.errors import HostsDiffer, RunNotFound
from entrepot.workbench.analysis import find
from entrepot.workbench.analysis.findings import Figure, Findings
from entrepot.workbench.analysis.published import published
from entrepot.workbench.measuring.quiet import busy_mark
from spark.synthetic_runs import BEGUN, SECOND, SyntheticRun, cpu, depths, evenly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

US, MS = 1_000, 1_000_000


def one_way(moments: Sequence[int], sender: int = 0, receiver: int = 0) -> tuple[list[Any], list[Any]]:
    """Messages of 100 bytes that take 1.0 to 1.99 ms from the intended moment, in a pattern of 100."""
    sent = [(sender, n, 100, at, at + 10 * US, at + 50 * US) for n, at in enumerate(moments)]
    received = [(receiver, sender, n, at + MS + (n % 100) * 10 * US, 0) for n, at in enumerate(moments)]
    return sent, received


def value(findings: Findings, metric: str, **chosen: object) -> float:
    return figure(findings, metric, **chosen).value


def figure(findings: Findings, metric: str, **chosen: object) -> Figure:
    found = [
        one
        for one in findings.figures
        if one.metric == metric and all(getattr(one, name) == wanted for name, wanted in chosen.items())
    ]
    assert len(found) == 1, (metric, chosen, len(found), sorted({one.metric for one in findings.figures}))
    return found[0]


@pytest.fixture(scope="module")
def known(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """One run with a trial of each kind; each test looks at one of them."""
    run = SyntheticRun(tmp_path_factory.mktemp("known") / "known", cores=2, absent={"nats": "not installed"})
    moments = evenly(1000, 2.0)
    sent, received = one_way(moments)
    busy = cpu(2.0, machine=1.5, server=0.5, generators=0.25)
    # Three lost, two come twice, one is overtaken by the next, one was never sent.
    flawed = [row for row in received if row[2] not in (10, 20, 30)]
    flawed += [(0, 0, n, moments[-1] + 5 * MS, 0) for n in (100, 101)]
    place = next(i for i, row in enumerate(flawed) if row[2] == 500)
    flawed[place], flawed[place + 1] = flawed[place + 1], flawed[place]
    flawed.append((0, 9, 77, moments[-1] + 6 * MS, 0))
    run.trial(scenario="ad-hoc/stream", sent=sent, received=flawed, samples=[*busy, *depths("Q", [0, 5, 10, 5, 0])])
    run.trial(scenario="ad-hoc/send", load="send", sent=sent, received=received, samples=busy)
    run.trial(scenario="ad-hoc/receive", load="receive", received=received, samples=busy)
    run.trial(scenario="ad-hoc/trips", load="round-trip", sent=sent, received=received, samples=busy)
    run.trial(
        scenario="ad-hoc/rated",
        load="round-trip",
        sent=sent,
        received=received,
        samples=busy,
        offered_per_s=1000.0,
    )
    topics = [one_way(moments, sender) for sender in (0, 1)]
    every = [row for sender, (_, came) in enumerate(topics) for r in range(sender, 6, 2) for row in _to(came, r)]
    del every[7]
    run.trial(
        scenario="ad-hoc/publish",
        load="publish",
        effective={"topics": 2, "receivers": 6, "senders": 2},
        sent=topics[0][0] + topics[1][0],
        received=every,
    )
    calls = [(0, 4, 50, BEGUN + n * MS, BEGUN + n * MS + (n + 1) * US) for n in range(100)]
    calls += [(0, 4, 2000, BEGUN + n * MS, BEGUN + n * MS + (n + 1) * 10 * US) for n in range(100)]
    calls += [(0, 0, 0, BEGUN + n * MS, BEGUN + n * MS + 7 * US) for n in range(100)]
    run.trial(scenario="ad-hoc/calls", load="calls", calls=calls, seconds=0.2)
    sessions = [(0, 8, 0, at, at + 5 * MS) for at in evenly(40, 2.0)]
    run.trial(scenario="ad-hoc/sessions", load="sessions", sent=sent, received=received, calls=sessions)
    run.trial(
        scenario="ad-hoc/connected",
        load="connected",
        sent=sent,
        received=received,
        facts={"memory_per_client": 123.5},
    )
    run.trial(scenario="ad-hoc/flow", load="flow", sent=sent, received=received, samples=busy)
    run.trial(scenario="wbimb/2.1", document="wbimb-hpux-v5", table="2.1", load="flow", sent=sent, received=received)
    run.trial(scenario="ad-hoc/failed", status="failed", reason="the server died", sent=sent)
    run.trial(scenario="ad-hoc/invalid", status="invalid", reason="half of it", sent=sent, received=received)
    run.trial(scenario="ad-hoc/interrupted", sent=sent, received=received, ended=False)
    late = [(s, n, b, at, at + 30 * MS, at + 31 * MS) for s, n, b, at, _, _ in sent]
    run.trial(scenario="ad-hoc/late", load="open-loop", sent=late, received=received, offered_per_s=1000.0)
    held = _held_up(sent)
    run.trial(scenario="ad-hoc/held", load="open-loop", sent=held, received=received, offered_per_s=1000.0)
    run.trial(
        scenario="ad-hoc/overworked",
        load="open-loop",
        sent=held,
        received=received,
        offered_per_s=1000.0,
        samples=cpu(2.0, machine=1.5, server=0.5, generators=1.0, busiest=0.97),
    )
    return find(spark, [run.write()])


def _held_up(sent: Sequence[Any]) -> list[Any]:
    """Each call takes 30 ms, in which more messages fall due; they all go in the next one, at once."""
    held: list[Any] = []
    now = 0
    while len(held) < len(sent):
        now = max(now, sent[len(held)][3])
        due = [row for row in sent[len(held) : len(held) + 100] if row[3] <= now]
        held += [(sender, n, size, at, now, now + 30 * MS) for sender, n, size, at, _, _ in due]
        now += 30 * MS
    return held


def _to(rows: Sequence[Any], receiver: int) -> list[Any]:
    return [(receiver, *row[1:]) for row in rows]


def test_a_figure_carries_the_mark_of_a_trial_that_others_disturbed(spark: SparkSession, tmp_path: Path):
    run = SyntheticRun(tmp_path / "busy")
    sent, received = one_way(evenly(1000, 2.0))
    for repetition, share in enumerate((0.02, 0.31, 0.2), 1):
        mark = busy_mark(share)
        run.trial(sent=sent, received=received, repetition=repetition, others_share=share, busy=mark)
    found = find(spark, [run.write()])
    assert figure(found, "throughput").busy == f"{busy_mark(0.31)}, in 2 of 3 trials"


def test_rates_and_latencies_of_a_stream(known: Findings):
    at = {"scenario": "ad-hoc/stream"}
    assert value(known, "throughput", **at) == pytest.approx(1000, rel=0.01)
    assert value(known, "sent", **at) == pytest.approx(1000, rel=0.005)
    assert value(known, "received", **at) == value(known, "throughput", **at)
    assert value(known, "latency_p50", **at) == pytest.approx(0.0015, rel=0.01)
    assert value(known, "latency_p90", **at) == pytest.approx(0.0019, rel=0.01)


def test_processor_time_of_a_stream(known: Findings):
    at = {"scenario": "ad-hoc/stream"}
    assert value(known, "cpu", **at) == pytest.approx(75)
    assert value(known, "server_cores", **at) == pytest.approx(0.5)
    assert value(known, "generator_cores", **at) == pytest.approx(0.25)
    assert value(known, "server_cpu_per_message", **at) == pytest.approx(0.5, rel=0.01)
    assert figure(known, "server_cpu_per_message", **at).unit == "ms"


def test_sending_is_measured_to_the_acknowledgement(known: Findings):
    at = {"scenario": "ad-hoc/send"}
    assert value(known, "throughput", **at) == pytest.approx(1000, rel=0.005)
    assert value(known, "latency_p99", **at) == pytest.approx(50e-6)
    assert value(known, "latency_mean", **at) == pytest.approx(50e-6)


def test_receiving_has_no_latency(known: Findings):
    assert value(known, "throughput", scenario="ad-hoc/receive") == pytest.approx(1000, rel=0.005)
    assert not any(one.scenario == "ad-hoc/receive" and "latency" in one.metric for one in known.figures)


def test_round_trips_have_the_published_names(known: Findings):
    at = {"scenario": "ad-hoc/trips"}
    assert value(known, "round_trips", **at) == pytest.approx(1000, rel=0.005)
    assert value(known, "response_time", **at) == pytest.approx(0.001495, rel=0.01)
    assert figure(known, "response_time", **at).unit == "s"


def test_publications_count_for_each_subscriber(known: Findings):
    at = {"scenario": "ad-hoc/publish"}
    assert value(known, "sent", **at) == pytest.approx(2000, rel=0.005)
    assert value(known, "received", **at) == pytest.approx(6000, rel=0.005)


def test_calls_by_name_and_bytes(known: Findings):
    # 90th of 1 … 100 µs, linear: 90.1.
    assert value(known, "call_put_p90_50") == pytest.approx(90.1e-6)
    assert value(known, "call_put_p90_2000") == pytest.approx(901e-6)
    assert value(known, "call_connect_p90") == pytest.approx(7e-6)


def test_sessions_facts_and_flows(known: Findings):
    assert value(known, "short_sessions") == pytest.approx(40, rel=0.03)
    assert value(known, "memory_per_client") == 123.5
    assert value(known, "cpu_per_message", scenario="ad-hoc/flow") == pytest.approx(0.5, rel=0.01)
    assert value(known, "throughput_full_machine") == value(known, "throughput", scenario="wbimb/2.1")


def test_every_message_is_accounted_for(known: Findings):
    flaws = [value(known, name, scenario="ad-hoc/stream") for name in ("lost", "duplicated", "reordered", "strays")]
    assert flaws == [3, 2, 3, 1]
    assert value(known, "lost", scenario="ad-hoc/publish") == 1
    # stream: 3 lost, 2 double, 3 late (one overtaken, the two double ones), 1 stray; publish: 1 lost.
    found = known.accounting
    assert (found.lost, found.duplicated, found.reordered, found.strays) == (4, 2, 3, 1)
    # 9 trials with one message a delivery, and the two topics of publish with 3 subscribers each.
    assert found.sent == 9 * 2000 + 2 * 3 * 2000


def test_trials_without_figures_are_marked(known: Findings):
    marks = {mark.scenario: (mark.status, mark.reason) for mark in known.marks}
    assert marks["ad-hoc/failed"] == ("failed", "the server died")
    assert marks["ad-hoc/invalid"] == ("invalid", "half of it")
    assert "too late: 99 % of its messages within 30.0 ms, and 5.0 ms are allowed" in marks["ad-hoc/late"][1]
    assert "used 0.97 cores" in marks["ad-hoc/overworked"][1]
    assert set(marks) == {"ad-hoc/failed", "ad-hoc/invalid", "ad-hoc/late", "ad-hoc/overworked"}
    assert not {one.scenario for one in known.figures} & set(marks)
    assert {mark.host for mark in known.marks} == {"host-1"}


def test_interrupted_trials_do_not_count(known: Findings):
    assert not any("interrupted" in one.trial for one in (*known.moments, *known.marks))


def test_a_generator_that_the_system_holds_up_is_not_late(known: Findings):
    assert value(known, "lateness_p99", scenario="ad-hoc/held") == pytest.approx(0.029, abs=0.001)
    assert value(known, "lateness_p99", scenario="ad-hoc/rated") == pytest.approx(10e-6)


def test_moments_are_the_seconds_of_a_trial(known: Findings):
    found = [one for one in known.moments if one.scenario == "ad-hoc/stream"]
    assert [one.second for one in found] == [0, 1]
    assert [one.sent_per_s for one in found] == pytest.approx([1000, 996], abs=6)
    assert [one.depth for one in found] == pytest.approx([10, 0], abs=0.2)
    assert [one.server_cpu_percent for one in found] == pytest.approx([50, 50], rel=0.02)
    assert found[0].latency_p50_s == pytest.approx(0.0015, rel=0.02)


def test_what_was_absent_and_seen_is_told(known: Findings):
    assert known.absent == {"nats": "not installed"}
    assert known.systems[0].system == "entrepot-unix"
    assert known.loads["open-loop"] == 1
    assert known.scales == {"known": "quick"}


# --- against a plain check ----------------------------------------------------------------------------


def test_random_trials_equal_a_plain_check(spark: SparkSession, tmp_path: Path):
    rng = random.Random(53)
    run = SyntheticRun(tmp_path / "random")
    for repetition in range(3):
        sent, received = _random_messages(rng)
        run.trial(repetition=repetition, sent=sent, received=received, parameters={"n": repetition})
    folder = run.write()
    found = find(spark, [folder])
    assert len(found.marks) == 0
    totals = Counter[str]()
    for path in sorted((folder / "trials").iterdir()):
        plain = _plain(path)
        totals.update({name: int(plain[name]) for name in ("lost", "duplicated", "reordered", "strays")})
        point = {"point": f"n={path.name[-4]},quality=express"}
        assert {name: value(found, name, **point) for name in plain} == pytest.approx(plain, rel=1e-9), path.name
    counted = found.accounting
    assert totals == {
        "lost": counted.lost,
        "duplicated": counted.duplicated,
        "reordered": counted.reordered,
        "strays": counted.strays,
    }


def _random_messages(rng: random.Random) -> tuple[list[Any], list[Any]]:
    sent, received = [], []
    for sender in range(3):
        at = BEGUN
        for number in range(2300):
            at += int(rng.expovariate(1000) * SECOND)
            began = at + rng.randrange(100 * US)
            done = 0 if rng.random() < 0.05 else began + rng.randrange(200 * US)
            sent.append((sender, number, rng.randrange(8, 5000), at, began, done))
            for _ in range(rng.choices((0, 1, 2), (1, 97, 2))[0]):
                arrived = began + int(rng.lognormvariate(0, 1) * MS)
                received.append((rng.randrange(2), sender, number, arrived, arrived + US))
    received += [(0, 7, number, BEGUN + number * MS, 0) for number in range(5)]
    received.sort(key=lambda row: row[3])
    return sent, received


def _plain(folder: Path) -> dict[str, float]:
    """Lists, dictionaries and the definitions; the window is the trial's own, as MSER-5 leaves out by definition."""
    sent = pyarrow.parquet.read_table(folder / "sent.parquet").to_pylist()
    received = pyarrow.parquet.read_table(folder / "received.parquet").to_pylist()
    begun, ended = _plain_window([row["received_ns"] for row in received])
    seconds = (ended - begun) / SECOND
    intended = {(row["sender"], row["number"]): row["intended_ns"] for row in sent}
    latencies = sorted(
        (row["received_ns"] - intended[key]) / SECOND
        for row in received
        if (key := (row["sender"], row["number"])) in intended and begun <= intended[key] < ended
    )
    comings = Counter((row["sender"], row["number"]) for row in received)
    highest: dict[tuple[int, int], int] = {}
    reordered = 0
    for row in received:
        if (row["sender"], row["number"]) in intended:
            pair = row["receiver"], row["sender"]
            reordered += row["number"] < highest.get(pair, -1)
            highest[pair] = max(row["number"], highest.get(pair, -1))
    acknowledged = [row["acknowledged_ns"] for row in sent if row["acknowledged_ns"] is not None]
    return {
        "lost": sum(key not in comings for key in intended),
        "duplicated": sum(times - 1 for key, times in comings.items() if key in intended),
        "reordered": reordered,
        "strays": sum(times for key, times in comings.items() if key not in intended),
        "sent": sum(begun <= row["sent_ns"] < ended for row in sent) / seconds,
        "acknowledged": sum(begun <= at < ended for at in acknowledged) / seconds,
        "received": sum(begun <= row["received_ns"] < ended for row in received) / seconds,
        "latency_mean": math.fsum(latencies) / len(latencies),
        "latency_p50": _percentile(latencies, 50),
        "latency_p90": _percentile(latencies, 90),
        "latency_p99": _percentile(latencies, 99),
        "latency_max": latencies[-1],
    }


def _plain_window(completed: Sequence[int]) -> tuple[int, int]:
    """MSER-5 over bins of a 300th, by its formula: the d that makes Σ(x − mean)² / (n − d)² smallest."""
    width = -(-2 * SECOND // 300)
    counts = Counter((at - BEGUN) // width for at in completed)
    bins = [counts[index] for index in range(2 * SECOND // width)]
    low, high = _percentile(sorted(bins), 5), _percentile(sorted(bins), 95)
    clipped = [min(max(each, low), high) for each in bins]
    means = [sum(clipped[i : i + 5]) / 5 for i in range(0, len(clipped) // 5 * 5, 5)]
    errors = []
    # The last few places are no candidates, see warm_up.py.
    for cut in range(len(means) - 4):
        rest = means[cut:]
        mean = sum(rest) / len(rest)
        errors.append(sum((each - mean) ** 2 for each in rest) / len(rest) ** 2)
    if errors.index(min(errors)) > len(means) / 2:
        errors = errors[: len(means) // 2 + 1]
    return BEGUN + errors.index(min(errors)) * 5 * width, BEGUN + 2 * SECOND


def _percentile(ordered: Sequence[float], percent: float) -> float:
    place = (len(ordered) - 1) * percent / 100
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


# --- several runs, hosts, broken files ----------------------------------------------------------------


def two_hosts(tmp_path: Path) -> list[Path]:
    folders = []
    for number, rate in ((1, 1000), (2, 500)):
        run = SyntheticRun(tmp_path / f"run{number}", host=f"host-{number}", cores=2 * number)
        for system, factor in (("entrepot-unix", 1.0), ("rabbitmq", 0.5)):
            for repetition in range(3):
                sent, received = one_way(evenly(rate * factor * (1 + 0.1 * repetition), 2.0))
                run.trial(system=system, repetition=repetition, sent=sent, received=received)
        folders.append(run.write())
    return folders


def test_runs_of_different_hosts_refuse_to_be_compared(spark: SparkSession, tmp_path: Path):
    with pytest.raises(HostsDiffer, match=r"run1, run2.*cores is 2 and 4") as caught:
        find(spark, two_hosts(tmp_path))
    assert caught.value.code == "M09"


def test_hosts_apart_have_their_own_figures_and_ratios(spark: SparkSession, tmp_path: Path):
    found = find(spark, two_hosts(tmp_path), apart=True)
    assert set(found.environments) == {"host-1", "host-2"}
    assert {(one.host, one.trial[:4]) for one in found.moments} == {("host-1", "run1"), ("host-2", "run2")}
    for host, rate in (("host-1", 1000), ("host-2", 500)):
        ours = figure(found, "throughput", host=host, system="entrepot-unix")
        assert ours.samples == pytest.approx([rate, 1.1 * rate, 1.2 * rate], rel=0.01)
        assert ours.value == pytest.approx(1.1 * rate, rel=0.01)
        # Of the 27 ways to draw three runs, one has the slowest thrice (mean 1.0) and three have it twice (1.03).
        assert 0.99 * rate < ours.low < 1.035 * rate
        assert 1.16 * rate < ours.high < 1.21 * rate
        assert ours.repetitions == 3
        (ratio,) = [one for one in found.comparisons if one.host == host and one.metric == "throughput"]
        assert (ratio.system, ratio.other) == ("entrepot-unix", "rabbitmq")
        # All three rise and fall together, so in pairs the ratio is certain, though each figure is not.
        assert (ratio.ratio, ratio.low, ratio.high) == pytest.approx((2, 2, 2), rel=0.02)


def test_two_runs_of_one_host_are_repetitions_of_each_other(spark: SparkSession, tmp_path: Path):
    folders = []
    for number in (1, 2):
        run = SyntheticRun(tmp_path / f"run{number}")
        sent, received = one_way(evenly(1000 * number, 2.0))
        run.trial(sent=sent, received=received)
        folders.append(run.write())
    found = figure(find(spark, [*folders, folders[0]]), "throughput")
    assert found.repetitions == 2
    assert found.value == pytest.approx(1500, rel=0.01)


def test_a_folder_without_a_run_is_named(spark: SparkSession, tmp_path: Path):
    with pytest.raises(RunNotFound, match=r"no run\.json"):
        find(spark, [tmp_path])


@pytest.mark.parametrize("kept", [0, 100, -40])
def test_a_cut_file_is_named(spark: SparkSession, tmp_path: Path, kept: int):
    run = SyntheticRun(tmp_path / "cut")
    sent, received = one_way(evenly(1000, 2.0))
    path = run.trial(sent=sent, received=received) / "sent.parquet"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(RunNotFound, match=r"sent\.parquet cannot be read"):
        find(spark, [run.write()])


def test_a_file_with_broken_rows_is_named(spark: SparkSession, tmp_path: Path):
    run = SyntheticRun(tmp_path / "broken")
    sent, received = one_way(evenly(1000, 2.0))
    path = run.trial(sent=sent, received=received) / "sent.parquet"
    whole = bytearray(path.read_bytes())
    whole[40 : len(whole) // 2] = bytes(len(whole) // 2 - 40)
    path.write_bytes(whole)
    with pytest.raises(RunNotFound, match=r"sent\.parquet cannot be read"):
        find(spark, [run.write()])


def test_the_same_trial_twice_is_refused(spark: SparkSession, tmp_path: Path):
    import shutil

    run = SyntheticRun(tmp_path / "once")
    sent, received = one_way(evenly(1000, 2.0))
    run.trial(sent=sent, received=received)
    copy = Path(shutil.copytree(run.write(), tmp_path / "twice"))
    with pytest.raises(RunNotFound, match="is in another of these runs"):
        find(spark, [run.folder, copy])


def test_a_run_without_trials_has_no_figures(spark: SparkSession, tmp_path: Path):
    found = find(spark, [SyntheticRun(tmp_path / "empty").write()])
    assert found.figures == ()
    assert found.runs == ("empty",)


# --- published ----------------------------------------------------------------------------------------


def test_published_figures_are_a_table(spark: SparkSession):
    frame = published(spark)
    assert frame.count() == 1135
    row = spark.sql(
        "SELECT value, unit, scenario FROM published WHERE source = 'nstl-msmq-mqseries' AND table = '1'"
        " AND system = 'MSMQ' AND message_bytes = 10 AND metric = 'throughput'"
    ).first()
    assert row is not None
    assert tuple(row) == (14130.0, "msg/s", "nstl/1")
    spark.catalog.dropTempView("published")


def test_figures_stand_beside_the_published(spark: SparkSession, tmp_path: Path):
    place = published(spark).where("table = '1' AND scenario = 'nstl/1' AND message_bytes = 10").first()
    assert place is not None
    run = SyntheticRun(tmp_path / "beside")
    parameters = dict(part.split("=") for part in place["point"].split(","))
    sent, received = one_way(evenly(1413, 2.0))
    run.trial(scenario="nstl/1", load="send", parameters=parameters, sent=sent, received=received)
    found = find(spark, [run.write()])
    ratio = next(one for one in found.comparisons if one.other == "published: MSMQ" and one.metric == "throughput")
    assert ratio.ratio == pytest.approx(0.1, rel=0.01)
    assert ratio.other_value == 14130
    assert len(found.published) == 1135
    spark.catalog.dropTempView("published")
