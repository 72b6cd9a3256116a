# SPDX-License-Identifier: Apache-2.0
"""The types of nodes, one class each, found by name.

A module is imported when a flow first asks for one of its types, so a flow
without HTTP does not load it.
"""

from __future__ import annotations

from importlib import import_module

from entrepot.errors import NodeTypeUnknown
from entrepot.flows.nodes.node import Node

# A module, and the class where it is not called after the type.
_PLACES = {
    "MQInput": "mq",
    "MQOutput": "mq",
    "MQReply": "mq",
    "MQGet": "mq",
    "Compute": "compute",
    "Filter": "compute:FilterNode",
    "Database": "compute:DatabaseNode",
    "Mapping": "mapping",
    "FlowOrder": "routing",
    "RouteToLabel": "routing",
    "Label": "routing",
    "Route": "routing:RouteNode",
    "Passthrough": "routing",
    "TryCatch": "routing",
    "Throw": "routing:ThrowNode",
    "Publication": "publication",
    "ResetContentDescriptor": "contents",
    "Validate": "contents",
    "Trace": "contents",
    "Python": "python",
    "AggregateControl": "aggregation",
    "AggregateRequest": "aggregation",
    "AggregateReply": "aggregation",
    "Collector": "collector",
    "TimeoutControl": "timeouts",
    "TimeoutNotification": "timeouts",
    "FileInput": "files",
    "FileOutput": "files",
    "HTTPInput": "http",
    "HTTPReply": "http",
    "HTTPRequest": "http",
}
NODE_TYPES = tuple(_PLACES)


def find_type(name: str) -> type[Node]:
    """
    Raises:
        NodeTypeUnknown: There is no such type; says which there are.
    """
    place = _PLACES.get(name)
    if place is None:
        raise NodeTypeUnknown(name, NODE_TYPES)
    module, _, attribute = place.partition(":")
    found: type[Node] = getattr(import_module(f"entrepot.flows.nodes.{module}"), attribute or name)
    return found
