# SPDX-License-Identifier: Apache-2.0
"""The verbs about claims at a server: who acts under a name, and since which epoch nobody else does.

They belong to `Conversation`, which finds them here by their names. Each takes SET
authority for the name or prefix (SET AUTHREC ... OBJTYPE(CLAIM)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot import checks
from entrepot.engine.claims import AUTHORITY, require_status
from entrepot.engine.settlement import Settlement
from entrepot.errors import EntrepotError, Fenced, NotAuthorized
from entrepot.server.wire import verbs

if TYPE_CHECKING:
    from entrepot.server.conversation import Conversation


class SessionClaimHolder:
    """A connection, as claims know it."""

    __slots__ = ("_conversation", "administrator", "application", "token", "user")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.user = conversation.session.identity.user
        self.administrator = conversation.session.identity.administrator
        self.application = conversation.session.application
        self.token = b""

    def may_claim(self, name: str) -> bool:
        return self._conversation.session.may("CLAIM", name, AUTHORITY)

    def fence(self, error: Fenced) -> None:
        # Under the engine's lock: what the connection left open can only be backed out afterwards.
        self._conversation.registry.engine.post(partial(self._conversation.partner.fence, error))


def _holder(conversation: Conversation) -> SessionClaimHolder:
    if conversation.holder is None:
        conversation.holder = SessionClaimHolder(conversation)
    return conversation.holder


def _claim(conversation: Conversation, number: int, frame: verbs.ClaimPayload) -> None:
    holder = _holder(conversation)
    holder.token = checks.identifier("token", frame.token) or holder.token
    status = require_status(frame.status)
    claims = conversation.registry.engine.manager.claims
    _durably(conversation, number, lambda: claims.claim(holder, frame.name, frame.epoch, status))


def _retire(conversation: Conversation, number: int, frame: verbs.Retire) -> None:
    holder, claims = _holder(conversation), conversation.registry.engine.manager.claims
    _durably(conversation, number, lambda: (None, claims.retire(holder, frame.name, frame.epoch)))


def _next_epoch(conversation: Conversation, number: int, frame: verbs.PrefixPayload) -> None:
    holder, claims = _holder(conversation), conversation.registry.engine.manager.claims
    _durably(conversation, number, lambda: claims.next_epoch(holder, frame.prefix))


def _durably(conversation: Conversation, number: int, verb: Callable[[], tuple[Any, Settlement | None]]) -> None:
    """Answer with what a verb returns, once its settlement is done."""
    session = conversation.session
    answer: Any = None

    def run() -> Settlement | None:
        nonlocal answer
        answer, settlement = verb()
        return settlement

    def done(error: EntrepotError | None) -> None:
        session.tell_refused(error)
        conversation._answer(number, error, answer)

    session.attempt(run, done)


def _instruct(conversation: Conversation, number: int, frame: verbs.Instruct) -> None:
    try:
        with conversation.registry.host.lock:
            count = conversation.registry.engine.manager.claims.instruct(
                _holder(conversation), frame.prefix, frame.order
            )
    except NotAuthorized as error:
        conversation.session.tell_refused(error)
        raise
    conversation._answer(number, None, count)


def _claims(conversation: Conversation, number: int, frame: verbs.PrefixPayload) -> None:
    conversation.partner.give_way()
    with conversation.registry.host.lock:
        found = conversation.registry.engine.manager.claims.all(_holder(conversation), frame.prefix)
    conversation._answer(number, None, [astuple(claim) for claim in found])
