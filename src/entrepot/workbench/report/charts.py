# SPDX-License-Identifier: Apache-2.0
"""Which figures a scenario gets: the document's own kind of drawing, with published values hollow beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from entrepot.workbench.analysis.findings import Figure, TrialSecond
from entrepot.workbench.report import drawing
from entrepot.workbench.report.appearance import FAINT, INK, is_ours, look_of, published_marker
from entrepot.workbench.report.blocks import Drawing, LegendEntry, Line, Panel
from entrepot.workbench.report.drawing import Bars, Course, Series
from entrepot.workbench.report.view import View
from entrepot.workbench.report.wording import (
    Scale,
    count,
    described,
    is_less_better,
    is_number,
    name_of,
    value_of,
)

PANELS_MAX = 12
"""Of one drawing; what is left out is said, and is in the tables."""
_BAR_DOCUMENTS = ("nstl", "wbimb", "sonicmq")
_AXES = ("apps", "message_bytes", "receivers", "threads", "senders", "instances", "execution_groups")
_LOG_SPAN = 24.0
_SECONDS_MIN = 3


class Chooser(View):
    """Draws one scenario's figures on one host."""

    def drawings(self) -> Iterable[Drawing]:
        if not self.figures() and not self._moments():
            return
        if self.scenario in self.index.own and len(self._cases()) == 1:
            # A single bar compares with nothing.
            yield from self._courses()
            return
        if self.load == "calls":
            yield from self._calls()
        elif self.load == "open-loop":
            pass
        elif self.scenario.partition("/")[0] in _BAR_DOCUMENTS:
            yield from self._bars()
        else:
            yield from self._curves()
        yield from self._programmed()
        yield from self._courses()

    # Curves

    def _curves(self) -> Iterable[Drawing]:
        metrics = [metric for metric in self._metrics() if metric not in ("cpu", "cpu_per_message")]
        for axis in self._axes():
            panels = [panel for metric in metrics for panel in self._curve_panels(axis, metric)]
            if panels:
                subject = " and ".join(name_of(metric).lower() for metric in metrics)
                yield self._limited(f"{subject.capitalize()} against {name_of(axis).lower()}.", panels, metrics)
        if not self._axes():
            yield from self._bars()

    def _curve_panels(self, axis: str, metric: str, *, is_log: bool = False) -> Iterable[Panel]:
        """With `is_log` both axes are; otherwise those whose values lie far apart."""
        scale = self.scale(metric)
        for label, points in self._families(axis, self._points(metric)):
            xs = {point: float(self.parameters(point)[axis]) for point in points}
            series = [*self._published_series(metric, xs, scale), *self._measured_series(metric, xs, scale)]
            if len(set(xs.values())) < 2 or all(one.hollow for one in series):
                continue
            log_x = is_log or (min(xs.values()) > 0 and max(xs.values()) / min(xs.values()) > _LOG_SPAN)
            log_y = is_log or _is_log(series)
            yield drawing.lines(_title(metric, label), name_of(axis).lower(), scale.unit, series, log_x, log_y)

    def _measured_series(self, metric: str, xs: dict[str, float], scale: Scale) -> Iterable[Series]:
        for system in self.systems:
            found = [(xs[point], figure) for point in xs if (figure := self.figure(point, system, metric))]
            if found:
                yield _series(system, found, scale)

    def _published_series(self, metric: str, xs: dict[str, float], scale: Scale) -> Iterable[Series]:
        rows = self.published(metric)
        for place, system in enumerate(self.published_systems()):
            points = [(xs[row.point], row.value) for row in rows if row.system == system and row.point in xs]
            if points:
                values = [scale.of(value) for _, value in points]
                yield Series(INK, published_marker(place), [x for x, _ in points], values, hollow=True)

    # Bars

    def _bars(self) -> Iterable[Drawing]:
        metrics = [metric for metric in self._metrics() if not is_less_better(metric)] or self._metrics()[:1]
        panels = []
        for metric in metrics:
            points = self._points(metric)
            varying, _ = self.axes(points)
            axis = next((name for name in _AXES if name in varying), varying[-1] if varying else "")
            for label, family in self._families(axis, points):
                panel = self._bar_panel(metric, axis, label, family)
                if panel:
                    panels.append(panel)
        if panels:
            subject = " and ".join(name_of(metric).lower() for metric in metrics)
            beside = " beside what was published" if self.published() else ""
            yield self._limited(f"{subject.capitalize()}{beside}.", panels, metrics)

    def _bar_panel(self, metric: str, axis: str, label: str, points: Sequence[str]) -> Panel | None:
        scale = self.scale(metric)
        groups = []
        for place, system in enumerate(self.published_systems()):
            published = {row.point: row.value for row in self.published(metric) if row.system == system}
            values = [scale.of(published[point]) if point in published else None for point in points]
            groups.append(Bars(INK, published_marker(place), values, hollow=True))
        is_any_measured = False
        for system in self.systems:
            found = [self.figure(point, system, metric) for point in points]
            marked = [bool(self.marks(point, system)) for point in points]
            if not any(found) and not any(marked):
                continue
            is_any_measured = is_any_measured or any(found)
            values = [scale.of(figure.value) if figure else None for figure in found]
            lows = [scale.of(figure.low) if figure else None for figure in found]
            highs = [scale.of(figure.high) if figure else None for figure in found]
            look = look_of(system)
            groups.append(Bars(look, look.marker, values, lows, highs, marked=marked))
        groups = [group for group in groups if any(value is not None for value in group.values) or any(group.marked)]
        if not is_any_measured:
            return None
        categories = [value_of(axis, self.parameters(point).get(axis, "")) or "all" for point in points]
        title = _title(metric, label) + (f", by {name_of(axis).lower()}" if axis else "")
        return drawing.bars(title, categories, scale.unit, groups)

    # Calls: response time against size, both logarithmic

    def _calls(self) -> Iterable[Drawing]:
        metrics = self._metrics()
        panels = [panel for metric in metrics for panel in self._curve_panels("message_bytes", metric, is_log=True)]
        if panels:
            yield self._limited(
                "Response time of single calls against message size, both logarithmic.", panels, metrics
            )
        else:
            yield from self._bars()

    # Searches and schedules

    def _programmed(self) -> Iterable[Drawing]:
        """Recorded rate against programmed rate: the diagonal is a system that keeps up."""
        if self.load == "open-loop":
            yield from self._scheduled()
            return
        probes = [probe for probe in self.index.findings.probes if probe.scenario == self.scenario]
        points = list(dict.fromkeys(probe.point for probe in probes))
        systems = sorted({probe.system for probe in probes}, key=self.index.place_of_system)
        panels = []
        for point in points:
            series = []
            for system in systems:
                look = look_of(system)
                for hollow in (False, True):
                    found = [
                        probe
                        for probe in probes
                        if (probe.point, probe.system) == (point, system) and probe.sustained != hollow
                    ]
                    if found:
                        offered = [probe.offered_per_s for probe in found]
                        delivered = [probe.delivered_per_s for probe in found]
                        series.append(Series(look, look.marker, offered, delivered, hollow=hollow))
            label = self.label(point)
            panels.append(
                drawing.lines(label or "All probes", "programmed, msg/s", "recorded, msg/s", series, False, False, True)
            )
        if panels:
            kept, left = panels[:PANELS_MAX], len(panels) - PANELS_MAX
            caption = "Recorded rate against programmed rate, every probe of the search; hollow: not sustained."
            yield Drawing(caption + _left_out(left), kept, [self._entry(system) for system in systems])

    def _scheduled(self) -> Iterable[Drawing]:
        """The same for an open loop: what was sent and received of what the schedule wanted."""
        panels = []
        for metric in ("sent", "received", "latency_p99"):
            is_rate, scale = metric != "latency_p99", self.scale(metric)
            series = []
            for system in self.systems:
                found = [
                    (figure.offered_per_s, figure)
                    for figure in self.figures(metric)
                    if figure.system == system and figure.offered_per_s is not None
                ]
                if len(found) > 1:
                    series.append(_series(system, found, scale))
            if series:
                title, unit = (
                    (f"{name_of(metric)} rate", "recorded, msg/s") if is_rate else (name_of(metric), scale.unit)
                )
                log_y = not is_rate and _is_log(series)
                panels.append(drawing.lines(title, "programmed, msg/s", unit, series, False, log_y, diagonal=is_rate))
        if panels:
            caption = "Against the programmed rate: what was recorded (on the diagonal a system keeps up), and latency."
            yield self._limited(caption, panels, ["sent", "received", "latency_p99"])

    def _moments(self) -> list[TrialSecond]:
        return [moment for moment in self.index.findings.moments if moment.scenario == self.scenario]

    def _courses(self) -> Iterable[Drawing]:
        """Against time, where the document draws it so: open loops, and whatever it publishes no table of."""
        if self.load != "open-loop" and (self.published() or self.load in ("calls", "connected")):
            return
        trials: dict[str, list[TrialSecond]] = {}
        for moment in self._moments():
            trials.setdefault(moment.trial, []).append(moment)
        first: dict[tuple[str, str], list[TrialSecond]] = {}
        for moments in trials.values():
            key = (moments[0].point, moments[0].system)
            if len(moments) >= _SECONDS_MIN and (key not in first or moments[0].repetition < first[key][0].repetition):
                first[key] = moments
        points = self.points
        order = sorted(
            first, key=lambda key: (not is_ours(key[1]), self.index.place_of_system(key[1]), points.index(key[0]))
        )
        panels = []
        for point, system in order[:PANELS_MAX]:
            moments = sorted(first[point, system], key=lambda moment: moment.second)
            label = self.label(point)
            title = f"{self.index.short_title_of(system)}{': ' + label if label else ''}"
            course = Course(
                look_of(system),
                [float(moment.second) for moment in moments],
                [moment.sent_per_s for moment in moments],
                [moment.received_per_s for moment in moments],
                [moment.depth for moment in moments],
            )
            panels.append(drawing.over_time(title, course))
        if panels:
            legend = [
                LegendEntry("sending rate, in the colour of the system", INK.css, "", line="solid"),
                LegendEntry("receiving rate", INK.css, "", line="dashed"),
            ]
            caption = "Sending rate, receiving rate and waiting messages, second by second, in the first repetition."
            yield Drawing(caption + _left_out(len(order) - PANELS_MAX), panels, legend)

    # What they share

    def _cases(self) -> set[tuple[str, str]]:
        return {(figure.point, figure.system) for figure in self.figures()}

    def _metrics(self) -> list[str]:
        return [metric for metric in self.index.metrics(self.scenario) if self.figures(metric)]

    def _points(self, metric: str) -> list[str]:
        """Where something was published or measured."""
        known = {row.point for row in self.published(metric)} | {figure.point for figure in self.figures(metric)}
        return [point for point in self.points if point in known]

    def _axes(self) -> list[str]:
        """Numeric parameters that take at least two values among measured points."""
        measured_points = {figure.point for figure in self.figures()}
        measured = [point for point in self.points if point in measured_points]
        found = []
        names = list(_AXES)
        if self.scenario in self.index.own:
            names += [name for name in self.axes(measured)[0] if name not in names]
        for axis in names:
            values = {self.parameters(point).get(axis, "") for point in measured}
            if len(values) > 1 and all(is_number(value) for value in values):
                found.append(axis)
        return found

    def _families(self, axis: str, points: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Points that differ in `axis` only, and what else they are."""
        varying, _ = self.axes(points)
        families: dict[str, list[str]] = {}
        for point in points:
            parameters = self.parameters(point)
            if axis and axis not in parameters:
                continue
            others = [(name, parameters.get(name, "")) for name in varying if name != axis]
            families.setdefault(described(others), []).append(point)
        return list(families.items())

    def _limited(self, caption: str, panels: Sequence[Panel], metrics: Sequence[str]) -> Drawing:
        left = len(panels) - PANELS_MAX
        return Drawing(caption + _left_out(left), panels[:PANELS_MAX], list(self._legend(metrics)))

    def _legend(self, metrics: Sequence[str]) -> Iterable[LegendEntry]:
        for place, system in enumerate(self.published_systems()):
            if any(row.system == system and row.metric in metrics for row in self.published()):
                yield LegendEntry(f"published: {system}", INK.css, drawing.glyph(published_marker(place)), hollow=True)
        is_marked = False
        for system in self.systems:
            is_marked = is_marked or bool(self.marks(system=system))
            yield self._entry(system)
        if is_marked and self.scenario.partition("/")[0] in _BAR_DOCUMENTS:
            yield LegendEntry("no figure: the trial was marked", FAINT.css, "M-4 -4L4 4M-4 4L4 -4")

    def _entry(self, system: str) -> LegendEntry:
        look = look_of(system)
        line: Line = "dashed" if look.dashed else "solid"
        title = self.index.short_title_of(system)
        return LegendEntry(title, look.css, drawing.glyph(look.marker), hollow=look.hollow, line=line)


def _is_log(series: Sequence[Series]) -> bool:
    """Systems that lie far apart cannot share a linear axis."""
    tops = [max(one.ys) for one in series if one.ys]
    least = min((value for one in series for value in (*one.ys, *one.lows)), default=0.0)
    return least > 0 and len(tops) > 1 and max(tops) / min(tops) > _LOG_SPAN


def _series(system: str, found: Sequence[tuple[float, Figure]], scale: Scale) -> Series:
    look = look_of(system)
    lows = [scale.of(min(figure.low, figure.value)) for _, figure in found]
    highs = [scale.of(max(figure.high, figure.value)) for _, figure in found]
    return Series(look, look.marker, [x for x, _ in found], [scale.of(one.value) for _, one in found], lows, highs)


def _title(metric: str, label: str) -> str:
    return f"{name_of(metric)}, {label}" if label else name_of(metric)


def _left_out(left: int) -> str:
    return f" {count(left, 'more panel')} would be here; their values are in the tables." if left > 0 else ""
