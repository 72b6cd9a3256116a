# SPDX-License-Identifier: Apache-2.0
"""The verbs of a connection that acts under a name, so that whoever takes its place can keep it from going on.

    epoch = connection.next_epoch("flow/orders")
    connection.claim("flow/orders/1", epoch)  # whoever acted as flow/orders/1 before is fenced

docs/decisions/0019-claims.md tells more.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from entrepot.queues.claims import Claim, require_epoch, require_name, require_prefix, status_form

if TYPE_CHECKING:
    from entrepot.binding import Binding, ClaimedBinding, RunningUnit

_TURNING = threading.Lock()


class ClaimVerbs:
    """What a connection can do about claims."""

    _host: Binding | None
    _units: set[RunningUnit]
    application: str

    @property
    def host(self) -> Binding:
        raise NotImplementedError

    def claim(self, name: str, epoch: int, *, status: Mapping[str, Any] | None = None) -> str:
        """Take the right to act under a name, or renew it; returns the order that was given to it, or "".

        Whoever held it with a lower epoch is fenced: its units of work are
        backed out, and all its verbs are refused, also after it has connected
        again. A new epoch is on disk when this returns, and no lower one ever
        gets the name again. Claim before you open readers and consumers.

        With the same epoch it is renewed, which is cheap; `status`, a mapping
        that JSON can write, is what `claims` then tells of it. After a broken
        connection it is claimed again by itself, before any other verb.

        Raises:
            Fenced: The name is held with a higher epoch, or with this one on another connection.
            NotAuthorized: The user has no SET authority for the name (OBJTYPE(CLAIM)).
            LimitExceeded: The epoch is more than a million above those claimed or given out; use `next_epoch`.
            UserLimitReached: The user has claimed USRCLAIM names, or all users MAXCLAIM.
        """
        return self._claimant().claim(require_name(name), require_epoch(epoch), status_form(status))

    def retire(self, name: str, epoch: int) -> None:
        """Let nobody below an epoch act under a name; who does so now is fenced. On disk when this returns.

        Raises:
            NotAuthorized: The user has no SET authority for the name.
            LimitExceeded: As `claim` says.
        """
        self._claimant().retire(require_name(name), require_epoch(epoch))

    def instruct(self, prefix: str, order: str) -> int:
        """Give an order, such as "stop", to all who act under names that begin so; returns how many they are.

        Each hears it as the answer to its next `claim`, until a higher epoch
        is claimed, or the queue manager is started anew.

        Raises:
            NotAuthorized: The user has no SET authority for one of the names. None has heard anything.
        """
        return self._claimant().instruct(require_prefix(prefix), order)

    def claims(self, prefix: str = "") -> list[Claim]:
        """The claims whose names begin so, as far as the user has authority for them."""
        return self._claimant().claims(require_prefix(prefix))

    def next_epoch(self, prefix: str) -> int:
        """A number above all that were ever claimed, retired or given under names that begin so; on disk."""
        return self._claimant().next_epoch(require_prefix(prefix))

    def _claimant(self) -> ClaimedBinding:
        with _TURNING:
            # From now on others can fence this connection, and none of those that share its queue manager with it.
            self._host = claimant = self.host.claimant(self._units, self.application)
        return claimant
