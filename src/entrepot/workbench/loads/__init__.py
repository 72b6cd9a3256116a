# SPDX-License-Identifier: Apache-2.0
"""The load shapes over which all scenarios are declared."""

from __future__ import annotations

from importlib import import_module

from entrepot.workbench.loads.load import Load

_PLACES = {
    "send": "sending:Send",
    "receive": "receiving:Receive",
    "stream": "streaming:StreamLoad",
    "round-trip": "round_trips:RoundTrip",
    "open-loop": "open_loop:OpenLoop",
    "sustained": "sustained:SustainedLoad",
    "publish": "publishing:Publish",
    "calls": "calls:CallsLoad",
    "sessions": "sessions:Sessions",
    "connected": "connected:Connected",
    "forward": "forwarding:Forward",
    "flow": "flows:Flow",
}
NAMES = tuple(_PLACES)


def find_load(name: str) -> type[Load]:
    """The class of a load; KeyError when there is none, which a test of all scenarios excludes."""
    module, _, attribute = _PLACES[name].partition(":")
    found: type[Load] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found
