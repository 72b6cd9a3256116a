# SPDX-License-Identifier: Apache-2.0
"""The verbs about claims at a server: who acts under a name, and since which epoch nobody else does.

They belong to `NativeLink`, whose table leads here. Each takes SET
authority for the name or prefix (SET AUTHREC ... OBJTYPE(CLAIM)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot import checks
from entrepot.errors import EntrepotError, Fenced, NotAuthorized
from entrepot.queues.claims import AUTHORITY, require_status
from entrepot.queues.settlement import Settlement
from entrepot.wire import verbs
from entrepot.wire.verbs import Verb

if TYPE_CHECKING:
    from entrepot.channels.native import NativeLink


class SessionHolder:
    """A connection, as claims know it."""

    __slots__ = ("_link", "administrator", "application", "token", "user")

    def __init__(self, link: NativeLink) -> None:
        assert link.session is not None
        self._link = link
        self.user = link.session.identity.user
        self.administrator = link.session.identity.administrator
        self.application = link.session.application
        self.token = b""

    def may_claim(self, name: str) -> bool:
        assert self._link.session is not None
        return self._link.session.may("CLAIM", name, AUTHORITY)

    def fence(self, error: Fenced) -> None:
        # Under the engine's lock: what the connection left open can only be backed out afterwards.
        self._link.desk.engine.post(partial(self._link.fence, error))


def _holder(link: NativeLink) -> SessionHolder:
    if link.holder is None:
        link.holder = SessionHolder(link)
    return link.holder


def _claim(link: NativeLink, number: int, frame: verbs.Claim) -> None:
    holder = _holder(link)
    holder.token = checks.identifier("token", frame.token) or holder.token
    status = require_status(frame.status)
    claims = link.desk.engine.manager.claims
    _durably(link, number, lambda: claims.claim(holder, frame.name, frame.epoch, status))


def _retire(link: NativeLink, number: int, frame: verbs.Retire) -> None:
    holder, claims = _holder(link), link.desk.engine.manager.claims
    _durably(link, number, lambda: (None, claims.retire(holder, frame.name, frame.epoch)))


def _next_epoch(link: NativeLink, number: int, frame: verbs.OfPrefix) -> None:
    holder, claims = _holder(link), link.desk.engine.manager.claims
    _durably(link, number, lambda: claims.next_epoch(holder, frame.prefix))


def _durably(link: NativeLink, number: int, verb: Callable[[], tuple[Any, Settlement | None]]) -> None:
    """Answer with what a verb returns, once its settlement is done."""
    session = link.session
    assert session is not None
    answer: Any = None

    def run() -> Settlement | None:
        nonlocal answer
        answer, settlement = verb()
        return settlement

    def done(error: EntrepotError | None) -> None:
        session.tell_refused(error)
        link._answer(number, error, answer)

    session.attempt(run, done)


def _instruct(link: NativeLink, number: int, frame: verbs.Instruct) -> None:
    try:
        with link.desk.host.lock:
            count = link.desk.engine.manager.claims.instruct(_holder(link), frame.prefix, frame.order)
    except NotAuthorized as error:
        assert link.session is not None
        link.session.tell_refused(error)
        raise
    link._answer(number, None, count)


def _claims(link: NativeLink, number: int, frame: verbs.OfPrefix) -> None:
    link.give_way()
    with link.desk.host.lock:
        found = link.desk.engine.manager.claims.all(_holder(link), frame.prefix)
    link._answer(number, None, [astuple(claim) for claim in found])


CLAIMING: dict[int, Callable[..., None]] = {
    Verb.CLAIM: _claim,
    Verb.RETIRE: _retire,
    Verb.INSTRUCT: _instruct,
    Verb.CLAIMS: _claims,
    Verb.NEXT_EPOCH: _next_epoch,
}
