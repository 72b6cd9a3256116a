# SPDX-License-Identifier: Apache-2.0
"""How the figures came about, in sentences of which each has its reason in the findings.

A sentence about something that these runs did not do is not written: no
search without probes, no intervals where everything ran once, no rule for a
verdict that nothing got.
"""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.workbench.analysis.metrics import LATENESS_S_MIN, LATENESS_SHARE
from entrepot.workbench.measuring.quiet import OTHERS_SHARE_MAX
from entrepot.workbench.report.blocks import (
    Block,
    BulletList,
    Column,
    Paragraph,
    Section,
    Strong,
    TableBlock,
    heads,
    table,
    words,
)
from entrepot.workbench.report.findings_index import PUBLISHED, FindingsIndex
from entrepot.workbench.report.wording import SPANNED_MAX, count, listed, percent, spread
from entrepot.workbench.systems import is_answered

_LOADS = {
    "send": "Closed loop. Each thread sends as fast as the system takes messages; nothing is received meanwhile.",
    "receive": "Closed loop. The queue is filled before; each thread receives as fast as the system gives.",
    "stream": "Closed loop at both ends: senders and receivers work on one queue at the same time.",
    "round-trip": "Closed loop. Each driving application puts a request and waits for its reply before the next.",
    "open-loop": "Open loop. A schedule made beforehand says when each message is sent, whatever the system does.",
    "sustained": "Open loop, once for each rate that a search tries.",
    "publish": "Closed loop at both ends: publishers and subscribers work on topics at the same time.",
    "calls": "One client on an empty queue times its calls one by one.",
    "sessions": "Each driving application connects, makes its round trips and disconnects, again and again.",
    "connected": "Rated. Very many connections, each with a slow schedule of its own.",
    "forward": "A forwarder takes messages from another system and puts them on a queue of ours.",
    "flow": "Messages pass through a flow that runs on Spark, from its input queues to its output queues.",
}
_RATED = "Rated: each application has a schedule, and its response time counts from when it should have sent."
_VERDICTS = {
    "generator": "the load generators had no time left, so the figure is theirs and the system may be faster",
    "cpu": "the processors were busy",
    "log latency": "the log waited for the disk to force small writes",
    "log bandwidth": "the log wrote as many bytes as the disk takes",
    "lock or queue": "neither processors nor disk were busy, and work waited for its turn",
    "network": "the loopback or the network was full",
    "getter shortage": "messages waited although the system had time: receivers were too few",
    "none": "the programmed rate was reached, and no limit was looked for",
    "unknown": "no measure stood out",
}


def methods_section(index: FindingsIndex) -> Section:
    blocks: list[Block] = []
    if index.findings.figures:
        blocks.append(_loads_table(index))
        blocks.append(BulletList([[Strong(head), text] for head, text in _sentences(index)]))
        verdicts = _verdicts_table(index)
        if verdicts:
            blocks.append(verdicts)
    else:
        blocks.append(Paragraph("No trial of these runs gave a figure, so there is no method to describe."))
    return Section("methods", "How it was measured", blocks)


def _loads_table(index: FindingsIndex) -> TableBlock:
    used: dict[str, list[str]] = {}
    for name, scenario in (*index.scenarios.items(), *index.own.items()):
        if index.figures(name):
            used.setdefault(scenario.load, []).append(name)
    rows = []
    for load, names in used.items():
        text = _LOADS.get(load, load)
        if any(_is_rated(index, name) for name in names):
            text += f" {_RATED}"
        arrivals = sorted(
            {
                figure.parameters["arrivals"]
                for name in names
                for figure in index.figures(name)
                if "arrivals" in figure.parameters
            }
        )
        if arrivals:
            text += f" Arrivals: {listed(arrivals)}."
        trials = index.findings.loads.get(load)
        rows.append([load, text, f"{trials:,}" if trials else "–", str(len(names))])
    columns = [heads("Load"), words("What it does"), Column("Trials"), Column("Scenarios")]
    return table("The load models that were used.", columns, rows)


def _is_rated(index: FindingsIndex, scenario: str) -> bool:
    found = index.find(scenario)
    is_trip = found is not None and found.load == "round-trip"
    return is_trip and any(index.is_rated(scenario, figure.point) for figure in index.figures(scenario))


def _sentences(index: FindingsIndex) -> Iterator[tuple[str, str]]:
    findings = index.findings
    metrics = {figure.metric for figure in findings.figures}
    yield (
        "Generators.",
        " Load is made by processes of their own, each with the Python client that the system's users would use. "
        "Servers and generators share one machine, so a figure is what both together get out of it.",
    )
    yield (
        "Clock.",
        " All times are nanoseconds of the monotonic clock, which the processes of a machine have in common.",
    )
    if any(is_answered(figure.system) for figure in findings.figures):
        yield (
            "Two forms.",
            " Express messages are sent as each client does it best: pipelined, the answers being under way while the "
            "next is sent. Where a system is called answered, its senders wait for each answer. Ratios are to the "
            "better form of each peer; those of an answered form of ours are to answered peers.",
        )
    if any(metric.startswith(("latency_", "response_time")) for metric in metrics):
        yield (
            "Latency",
            " counts from the moment at which a message was meant to be sent, so a system that holds up its senders "
            "cannot hide it. In a closed loop that is when the sender was ready to send.",
        )
    if "lateness_p99" in metrics:
        late = [mark for mark in findings.marks if "too late" in mark.reason]
        marked = (
            f" {count(len(late), 'trial was', 'trials were')} marked for it." if late else " None was marked for it."
        )
        yield (
            "Schedules.",
            " Where a schedule says when to send, it is recorded how late each message was sent; a trial whose own "
            f"lateness at the 99th percentile exceeds {LATENESS_S_MIN * 1e3:.0f} ms or {percent(LATENESS_SHARE)} of a "
            f"sender's mean interval, whichever is more, gives no figure.{marked}",
        )
    yield (
        "Warm-up",
        " is found and not guessed: MSER-5 looks for it in each trial's rate of completions, and what it finds is "
        "left out. A closed loop that had not settled in its first half gives no figure.",
    )
    yield from _repetitions(index)
    if findings.probes:
        found = sum(probe.sustained for probe in findings.probes)
        yield (
            "Maximum sustainable throughput",
            " is searched: bracket, refine, confirm. A rate is sustained when the backlog comes down again to "
            "where it was, what is offered is delivered, the slowest percent does not become slower, and "
            "nothing is lost or doubled. "
            f"{count(len(findings.probes), 'rate was', 'rates were')} tried, and {found:,} sustained.",
        )
        unsure = [figure for figure in findings.figures if figure.metric == "mst_confirmed" and figure.value < 1]
        if unsure:
            yield (
                "Estimates (about)",
                f" are the rates of {count(len(unsure), 'search', 'searches')} that had to end before long probes had "
                "borne the rate and refuted one 5 % above it; beside them stand the highest rate that was borne and "
                "the lowest that was not.",
            )
    yield from _accounts(index)
    if metrics & {"cpu", "server_cores", "server_cpu_per_message"} or findings.moments:
        yield (
            "Sampler.",
            " A thread reads /proc while a trial lasts: processors, run queue, memory, writes and forces of the "
            "server, of the generators and of the machine, and the depths of queues where the system tells them.",
        )
    disturbed = [figure for figure in findings.figures if figure.busy]
    yield (
        "Quiet.",
        f" A trial is marked as busy when processes that are no part of it used more than {percent(OTHERS_SHARE_MAX)} "
        "of the processors while it lasted; so are its figure and every ratio and mean that it is in. "
        + (f"{count(len(disturbed), 'figure is', 'figures are')} so marked." if disturbed else "None is."),
    )
    if any(figure.reduced for figure in findings.figures):
        yield (
            "Reduced cases",
            " are those that this machine cannot hold as published; they are marked, and a note says what was run.",
        )
    if len(index.hosts) > 1:
        yield (
            "Hosts.",
            f" The runs are of {count(len(index.hosts), 'machine')}; no figure of one is divided by one of another.",
        )


def _repetitions(index: FindingsIndex) -> Iterator[tuple[str, str]]:
    findings = index.findings
    numbers = sorted({figure.repetitions for figure in findings.figures})
    if numbers[-1] == 1:
        yield (
            "Repetitions.",
            " Everything was run once, so there are no intervals, and small differences mean nothing.",
        )
        return
    many = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    yield (
        "Repetitions.",
        f" Each figure is the mean of {many} repetitions, each in fresh processes; beside it stand "
        f"{spread(numbers[-1])}; the spread of single messages would say nothing about another run.",
    )
    if numbers[-1] > SPANNED_MAX and numbers[0] < 5:
        yield (
            "Few repetitions",
            " make narrow intervals: with five, such an interval holds the truth in about 85 of 100 cases, and with "
            "fewer less often.",
        )
    if any(not row.other.startswith(PUBLISHED) for row in findings.comparisons):
        yield (
            "Ratios",
            " between systems are taken repetition by repetition where both were measured in turns, so that what "
            "slowed the machine for both cancels out. ≈ says that the interval holds 1.",
        )
    if any(row.other.startswith(PUBLISHED) for row in findings.comparisons):
        yield (
            "Published values",
            " come without intervals, so the interval of a ratio to them is that of our figure alone; and they are "
            "of other machines, of their time.",
        )


def _accounts(index: FindingsIndex) -> Iterator[tuple[str, str]]:
    sums = index.findings.accounting
    if not sums.trials:
        return
    faults = [
        count(amount, "message") + f" {what}"
        for amount, what in (
            (sums.lost, "lost"),
            (sums.duplicated, "doubled"),
            (sums.reordered, "overtaken by another"),
            (sums.strays, "received that were never sent"),
        )
        if amount
    ]
    yield (
        "Accounts.",
        f" Every message has a number, and every trial accounts for all of its messages: {count(sums.trials, 'trial')} "
        f"sent {sums.sent:,} and received {sums.received:,}; "
        f"{listed(faults) if faults else 'none was lost, doubled or overtaken'}.",
    )


def _verdicts_table(index: FindingsIndex) -> TableBlock | None:
    seen: dict[str, set[tuple[str, str, str, str]]] = {}
    for figure in index.findings.figures:
        if figure.bottleneck:
            place = (figure.host, figure.scenario, figure.point, figure.system)
            seen.setdefault(figure.bottleneck, set()).add(place)
    if not seen:
        return None
    order = [*(name for name in _VERDICTS if name in seen), *sorted(set(seen) - set(_VERDICTS))]
    rows = [[name, _VERDICTS.get(name, "–"), str(len(seen[name]))] for name in order]
    columns = [heads("Verdict"), words("Means"), Column("Cases")]
    return table("What held the measured cases back; the evidence stands beside each of them.", columns, rows)
