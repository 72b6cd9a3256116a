# SPDX-License-Identifier: Apache-2.0
"""Messages that come and go by no queue, as trees: Properties, a header of their transport perhaps, the body.

There is no MQMD when they come. A flow that needs one adds it; an MQOutput makes
one from Properties. When they go, headers of queues stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from entrepot.message import Message
from entrepot.models import parse_message, render_message
from entrepot.models.headers.chain import FORMATS
from entrepot.models.tree import Element, Folder, Root


def arrived(message: Message, parsing: Mapping[str, Any], header: Element | None = None) -> Root:
    """The tree of a message whose own properties tell of its transport, and are not shown.

    Raises:
        ModelNotFound: There is no such domain, or no such message set.
    """
    came = parse_message(
        replace(message, properties={}, format=""),
        domain=parsing["domain"],
        message_set=parsing["message_set"],
        message_type=parsing["message_type"],
        message_format=parsing["message_format"],
        transactional=True,
    )
    folders = [child for child in came.root.children if child.key != "MQMD"]
    root = Root()
    root.fill(folders if header is None else [folders[0], header, *folders[1:]])
    return root


def body_of(root: Root) -> Message:
    """The body as a message; headers of queues have no place here."""
    if any(isinstance(child, Folder) and child.domain.name in FORMATS for child in root.children):
        root = root.copy()
        for child in [each for each in root.children if isinstance(each, Folder) and each.domain.name in FORMATS]:
            root.remove(child)
    return render_message(root)


AS_BYTES = {"domain": "BLOB", "message_set": "", "message_type": "", "message_format": ""}
"""How to parse what could not be parsed otherwise."""


def place_in(tree: Element, *names: str) -> Element:
    """The element below a path of names; what is missing on the way is made."""
    for name in names:
        tree = tree.first(name) or tree.add(name)
    return tree


def set_in(tree: Element, name: str, value: Any) -> None:
    """Let a child say a value, made when it is missing."""
    child = tree.first(name)
    if child is None:
        tree.add(name, value)
    else:
        child.set_value(value)
