# SPDX-License-Identifier: Apache-2.0
"""A server carries out every verb of the table, and nothing that looks like a verb and is none."""

from __future__ import annotations

import inspect

from entrepot.server import claiming, coordination, putting
from entrepot.server.conversation import Conversation
from entrepot.server.wire.verbs import ASKED


def _takes_a_frame(function: object) -> bool:
    if not inspect.isfunction(function):
        return False
    names = list(inspect.signature(function).parameters)
    return (
        len(names) == 3 and names[0] in ("self", "conversation") and names[1:] in (["number", "frame"], ["number", "_"])
    )


def test_every_verb_of_a_client_has_a_method_and_every_method_a_verb() -> None:
    places = (Conversation, claiming, coordination, putting)
    methods = {name for place in places for name, each in vars(place).items() if _takes_a_frame(each)}
    assert methods == {f"_{verb.name.lower()}" for verb, each in ASKED.items() if each.in_conversation}
