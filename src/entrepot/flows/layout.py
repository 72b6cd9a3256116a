# SPDX-License-Identifier: Apache-2.0
"""Where the boxes and lines of a picture lie: layers from left to right, as few crossings as a few sweeps can reach.

A link that leads back is left out of the layers and runs below all boxes. A
link over several layers gets a place in each that it passes, so that no line
runs through a box. Boxes then move up and down to where their links come from
and go to, as far as those beside them let them.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from entrepot.flows.definition import SUBFLOW, FlowDefinition, FlowLink, NodeDefinition
from entrepot.flows.drawing import detail_of, roots

_MARGIN: Final = 24.0
_TITLE_HEIGHT: Final = 24.0
_BOX_HEIGHT: Final = 44.0
_PORT_HEIGHT: Final = 20.0
_GAP: Final = 26.0
"""Between boxes of one layer."""
_LAYER_GAP: Final = 44.0
"""Between layers, beside what the names of terminals need."""
_PASSING_HEIGHT: Final = 4.0
_LANE_HEIGHT: Final = 14.0
"""Between links that lead back."""
_SWEEPS: Final = 12
_CHARACTERS_MAX: Final = 34
_FINE: Final = 1e4
"""Far more than a box is high, so that its terminals lie between it and the next in order."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    x: float
    y: float
    width: float
    height: float
    title: str
    subtitle: str


@dataclass(frozen=True, slots=True)
class LinkLine:
    """The line of a link."""

    link: FlowLink
    points: tuple[Point, ...]
    goes_back: bool
    is_first_of_terminal: bool
    """Where several links leave one terminal, its name is written once."""


@dataclass(frozen=True, slots=True)
class FlowLayout:
    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[LinkLine, ...]


@dataclass(slots=True, eq=False)
class _Item:
    """Something in a layer: a box, or a line that passes it."""

    layer: int
    height: float
    name: str = ""
    width: float = 0.0
    title: str = ""
    subtitle: str = ""
    outputs: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    center: float = 0.0
    order: float = 0.0

    def port(self, terminals: Sequence[str], terminal: str) -> float:
        """How far below its centre a terminal lies."""
        return (terminals.index(terminal) - (len(terminals) - 1) / 2) * _PORT_HEIGHT


@dataclass(slots=True, eq=False)
class _Route:
    """A link that leads onwards, through all layers on its way."""

    link: FlowLink
    stations: list[_Item]


@dataclass(slots=True, eq=False)
class _Step:
    """A route between two neighbouring layers."""

    left: _Item
    right: _Item
    leaves: float
    """How far below the centre on the left it begins, and on the right it ends."""
    arrives: float


def lay_out(flow: FlowDefinition) -> FlowLayout:
    """Where everything lies."""
    links = [link for link in flow.links if link.source in flow.nodes and link.target in flow.nodes]
    back = _leading_back(flow, links)
    onward = [link for link in links if id(link) not in back]
    layer_of = _layers(flow, onward)
    items = {name: _item(node, layer_of[name]) for name, node in flow.nodes.items()}
    for link in links:
        _add_port(items[link.source].outputs, link.terminal)
        _add_port(items[link.target].inputs, link.input)
    for item in items.values():
        item.height = max(_BOX_HEIGHT, _PORT_HEIGHT * max(len(item.outputs), len(item.inputs), 1) + 6)
    layers: list[list[_Item]] = [[] for _ in range(max(layer_of.values(), default=0) + 1)]
    for item in items.values():
        layers[item.layer].append(item)
    routes = [_route(link, items, layers) for link in onward]
    steps = [step for route in routes for step in _steps(route)]
    _arrange(layers, steps)
    _place(layers, steps)
    return _drawn(links, items, layers, {id(route.link): route for route in routes})


def _add_port(ports: list[str], terminal: str) -> None:
    if terminal not in ports:
        ports.append(terminal)


def _item(node: NodeDefinition, layer: int) -> _Item:
    detail = detail_of(node)
    title = _cut(node.name)
    subtitle = _cut(f"{'subflow' if node.type == SUBFLOW else node.type}{' ' + detail if detail else ''}")
    width = max(_width(title, 8.0), _width(subtitle, 6.4), 60.0) + 20
    return _Item(layer, _BOX_HEIGHT, node.name, width, title, subtitle)


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS_MAX else text[: _CHARACTERS_MAX - 1] + "…"


def _width(text: str, character_width: float) -> float:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text) * character_width


# --- layers ---------------------------------------------------------------------------------------------------


def _leading_back(flow: FlowDefinition, links: Iterable[FlowLink]) -> set[int]:
    """The links that close a circle, as a walk in depth from where messages enter meets them."""
    onward: dict[str, list[FlowLink]] = {name: [] for name in flow.nodes}
    for link in links:
        onward[link.source].append(link)
    back: set[int] = set()
    done: set[str] = set()
    for root in roots(flow):
        if root in done:
            continue
        path = [root]
        on_path = {root}
        ways = [iter(onward[root])]
        while ways:
            way = next(ways[-1], None)
            if way is None:
                ways.pop()
                name = path.pop()
                on_path.discard(name)
                done.add(name)
            elif way.target in on_path:
                back.add(id(way))
            elif way.target not in done:
                path.append(way.target)
                on_path.add(way.target)
                ways.append(iter(onward[way.target]))
    return back


def _layers(flow: FlowDefinition, onward: Sequence[FlowLink]) -> dict[str, int]:
    """Each node one layer behind the last that leads to it."""
    waiting_for = dict.fromkeys(flow.nodes, 0)
    following: dict[str, list[str]] = {name: [] for name in flow.nodes}
    for link in onward:
        waiting_for[link.target] += 1
        following[link.source].append(link.target)
    layers = dict.fromkeys(flow.nodes, 0)
    ready = [name for name, count in waiting_for.items() if not count]
    while ready:
        name = ready.pop()
        for target in following[name]:
            layers[target] = max(layers[target], layers[name] + 1)
            waiting_for[target] -= 1
            if not waiting_for[target]:
                ready.append(target)
    return layers


def _route(link: FlowLink, items: dict[str, _Item], layers: list[list[_Item]]) -> _Route:
    source, target = items[link.source], items[link.target]
    stations = [source]
    for layer in range(source.layer + 1, target.layer):
        passing = _Item(layer, _PASSING_HEIGHT)
        layers[layer].append(passing)
        stations.append(passing)
    return _Route(link, [*stations, target])


def _steps(route: _Route) -> list[_Step]:
    stations, link = route.stations, route.link
    found = [_Step(left, right, 0.0, 0.0) for left, right in itertools.pairwise(stations)]
    found[0].leaves = stations[0].port(stations[0].outputs, link.terminal)
    found[-1].arrives = stations[-1].port(stations[-1].inputs, link.input)
    return found


# --- order and height -----------------------------------------------------------------------------------------


def _arrange(layers: list[list[_Item]], steps: list[_Step]) -> None:
    """Order each layer by where its links come from and go to, and keep the order with the fewest crossings."""
    by_right, by_left = _neighbours(steps)
    for layer in layers:
        _number(layer)
    best = (_crossings(steps), [list(layer) for layer in layers])
    for sweep in range(_SWEEPS):
        forwards = sweep % 2 == 0
        for layer in layers if forwards else reversed(layers):
            _sort(layer, by_right if forwards else by_left, forwards=forwards)
        crossings = _crossings(steps)
        if crossings < best[0]:
            best = (crossings, [list(layer) for layer in layers])
    for layer, kept in zip(layers, best[1], strict=True):
        layer[:] = kept
        _number(layer)


def _sort(layer: list[_Item], neighbours: dict[int, list[_Step]], *, forwards: bool) -> None:
    """By the mean place of what each item is linked to on one side; terminals of one box count a little."""
    wanted: dict[int, float] = {}
    for item in layer:
        steps = neighbours.get(id(item), ())
        if forwards:
            wanted[id(item)] = _mean([step.left.order + step.leaves / _FINE for step in steps], item.order)
        else:
            wanted[id(item)] = _mean([step.right.order + step.arrives / _FINE for step in steps], item.order)
    layer.sort(key=lambda item: wanted[id(item)])
    _number(layer)


def _number(layer: list[_Item]) -> None:
    for index, item in enumerate(layer):
        item.order = index


def _neighbours(steps: list[_Step]) -> tuple[dict[int, list[_Step]], dict[int, list[_Step]]]:
    by_right: dict[int, list[_Step]] = {}
    by_left: dict[int, list[_Step]] = {}
    for step in steps:
        by_right.setdefault(id(step.right), []).append(step)
        by_left.setdefault(id(step.left), []).append(step)
    return by_right, by_left


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


_COUNTED_MAX = 400
"""Steps between two layers whose crossings are counted; beyond that no difference can be seen."""


def _crossings(steps: list[_Step]) -> int:
    by_layer: dict[int, list[tuple[float, float]]] = {}
    for step in steps:
        ends = (step.left.order + step.leaves / _FINE, step.right.order + step.arrives / _FINE)
        by_layer.setdefault(step.left.layer, []).append(ends)
    count = 0
    for lines in by_layer.values():
        lines.sort()
        for index, (left, right) in enumerate(lines[:_COUNTED_MAX]):
            count += sum(begin > left and end < right for begin, end in lines[index + 1 :])
    return count


def _place(layers: list[list[_Item]], steps: list[_Step]) -> None:
    """Give each item its height: near to what it is linked to, and clear of its neighbours."""
    by_right, by_left = _neighbours(steps)
    for layer in layers:
        _settle(layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS):
        forwards = sweep % 2 == 0
        for layer in layers if forwards else reversed(layers):
            if forwards:
                wanted = [
                    _mean([s.left.center + s.leaves - s.arrives for s in by_right.get(id(item), ())], item.center)
                    for item in layer
                ]
            else:
                wanted = [
                    _mean([s.right.center + s.arrives - s.leaves for s in by_left.get(id(item), ())], item.center)
                    for item in layer
                ]
            _settle(layer, wanted)


def _settle(layer: list[_Item], wanted: list[float]) -> None:
    """The centres nearest to those wanted, by least squares, with the order and the gaps kept."""
    below_first: list[float] = []
    offset = 0.0
    for index, item in enumerate(layer):
        if index:
            offset += (layer[index - 1].height + item.height) / 2 + _GAP
        below_first.append(offset)
    # Without the gaps the centres only have to rise: neighbours that would not are moved together.
    blocks: list[list[float]] = []
    for center, offset in zip(wanted, below_first, strict=True):
        blocks.append([center - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, count = blocks.pop()
            before, before_count = blocks[-1]
            total = before_count + count
            blocks[-1] = [(before * before_count + mean * count) / total, total]
    levels = [mean for mean, count in blocks for _ in range(int(count))]
    for item, level, offset in zip(layer, levels, below_first, strict=True):
        item.center = level + offset


# --- coordinates ----------------------------------------------------------------------------------------------


def _drawn(
    links: list[FlowLink], items: dict[str, _Item], layers: list[list[_Item]], routes: dict[int, _Route]
) -> FlowLayout:
    everything = [item for layer in layers for item in layer]
    top = min((item.center - item.height / 2 for item in everything), default=0.0)
    for item in everything:
        item.center += _MARGIN + _TITLE_HEIGHT - top
    lefts, rights, width = _columns(items, layers)
    bottom = max((item.center + item.height / 2 for item in everything), default=_MARGIN + _TITLE_HEIGHT)
    paths = []
    named: set[tuple[str, str]] = set()
    lanes = 0
    for link in links:
        route = routes.get(id(link))
        if route is not None:
            points = _onward_points(route, items, lefts, rights)
        else:
            lanes += 1
            points = _back_points(link, items, lefts, rights, bottom, lanes)
        is_first = (link.source, link.terminal) not in named
        named.add((link.source, link.terminal))
        paths.append(LinkLine(link, points, route is None, is_first))
    boxes = tuple(
        Box(
            item.name,
            lefts[item.layer],
            item.center - item.height / 2,
            item.width,
            item.height,
            item.title,
            item.subtitle,
        )
        for item in items.values()
    )
    return FlowLayout(width, bottom + lanes * _LANE_HEIGHT + _MARGIN, boxes, tuple(paths))


def _columns(items: dict[str, _Item], layers: list[list[_Item]]) -> tuple[list[float], list[float], float]:
    """Left and right of each layer, and the width of all."""
    lefts: list[float] = []
    rights: list[float] = []
    x = _MARGIN
    names = max(
        (_width(terminal, 6.0) for item in items.values() for terminal in item.inputs if terminal != "in"), default=0
    )
    for layer in layers:
        lefts.append(x)
        rights.append(x + max((item.width for item in layer), default=60.0))
        x = rights[-1] + _LAYER_GAP + names
        x += max((_width(terminal, 6.0) for item in layer for terminal in item.outputs), default=0.0)
    return lefts, rights, x - _LAYER_GAP - names + _MARGIN * 2


def _begin(link: FlowLink, items: dict[str, _Item], lefts: list[float]) -> Point:
    source = items[link.source]
    return lefts[source.layer] + source.width, source.center + source.port(source.outputs, link.terminal)


def _end(link: FlowLink, items: dict[str, _Item], lefts: list[float]) -> Point:
    target = items[link.target]
    return lefts[target.layer], target.center + target.port(target.inputs, link.input)


def _onward_points(
    route: _Route, items: dict[str, _Item], lefts: list[float], rights: list[float]
) -> tuple[Point, ...]:
    x, y = _begin(route.link, items, lefts)
    points: list[Point] = [(x, y)]
    right = rights[route.stations[0].layer]
    if right > x:
        points.append((right, y))  # past the wider boxes of its layer
    for passing in route.stations[1:-1]:
        points += [(lefts[passing.layer], passing.center), (rights[passing.layer], passing.center)]
    points.append(_end(route.link, items, lefts))
    return tuple(points)


def _back_points(
    link: FlowLink, items: dict[str, _Item], lefts: list[float], rights: list[float], bottom: float, lane: int
) -> tuple[Point, ...]:
    """Out to the right, down, back below everything, and up to its target."""
    x, y = _begin(link, items, lefts)
    end_x, end_y = _end(link, items, lefts)
    offset = 10 + lane % 5 * 4
    right = rights[items[link.source].layer] + offset + max(_width(name, 6.0) for name in items[link.source].outputs)
    left = max(end_x - offset, 4.0)
    below = bottom + lane * _LANE_HEIGHT
    return ((x, y), (right, y), (right, below), (left, below), (left, end_y), (end_x, end_y))
