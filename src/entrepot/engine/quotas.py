# SPDX-License-Identifier: Apache-2.0
"""What one user may hold at a time, so that no user takes what all others need.

Every limit is an attribute of the queue manager, so ALTER QMGR changes it.
A holding has a key, so that counting it twice counts it once: a queue
manager that restarts counts what its definitions say, and a verb whose
record is still on its way to disk is counted already. Administrators are
counted and not limited (docs/decisions/0027-limits-per-user.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from entrepot.engine.definitions import ManagerAttributes
from entrepot.errors import UserLimitReached


@dataclass(frozen=True, slots=True, eq=False)
class Quota:
    """Something that a user may hold so much of."""

    what: str
    keyword: str
    """Of ALTER QMGR."""
    field: str
    total_keyword: str = ""
    """The limit for all users together, if there is one."""
    total_field: str = ""


UNCOMMITTED_BYTES = Quota("bytes in open units of work", "USRUOWB", "user_uncommitted_bytes_max")
PREPARED_UNITS = Quota("prepared units of work", "USRPREP", "user_prepared_max", "MAXPREP", "prepared_max")
PERMANENT_QUEUES = Quota("permanent dynamic queues", "USRPERMQ", "user_permanent_queues_max")
TEMPORARY_QUEUES = Quota("temporary dynamic queues", "USRTEMPQ", "user_temporary_queues_max")
DURABLE_SUBSCRIPTIONS = Quota("durable subscriptions", "USRDSUB", "user_durable_subscriptions_max")
CLAIMS = Quota("claims", "USRCLAIM", "user_claims_max", "MAXCLAIM", "claims_max")
WAITING_GETS = Quota("waiting gets and consumers", "USRWAIT", "user_waiting_max")
CONNECTIONS = Quota("connections", "USRCONN", "user_connections_max")

ALL = (
    UNCOMMITTED_BYTES,
    PREPARED_UNITS,
    PERMANENT_QUEUES,
    TEMPORARY_QUEUES,
    DURABLE_SUBSCRIPTIONS,
    CLAIMS,
    WAITING_GETS,
    CONNECTIONS,
)
_EVERYBODY = "all users together"


class Account:
    """What one user holds of one quota."""

    __slots__ = ("_keys", "_quota", "_quotas", "held", "user")

    def __init__(self, quotas: Quotas, quota: Quota, user: str) -> None:
        self._quotas = quotas
        self._quota = quota
        self.user = user
        self.held = 0
        self._keys: dict[Hashable, int] = {}

    def hold(self, key: Hashable, amount: int = 1, *, limited: bool = True) -> None:
        """Let a key stand for an amount from now on, whatever it stood for before.

        Raises:
            UserLimitReached: Nothing has changed.
        """
        more = amount - self._keys.get(key, 0)
        if more > 0 and limited:
            self._quotas.require(self._quota, self, more)
        self._keys[key] = amount
        self.held += more
        self._quotas.changed(self._quota, more)

    def let_go(self, key: Hashable) -> None:
        amount = self._keys.pop(key, 0)
        self.held -= amount
        self._quotas.changed(self._quota, -amount)
        if not self._keys:
            self._quotas.forget(self._quota, self.user)


class Quotas:
    """The accounts of all users; for the engine's lock, but for those that only the loop's thread uses."""

    def __init__(self, attributes: Callable[[], ManagerAttributes]) -> None:
        self._attributes = attributes
        self._accounts: dict[tuple[Quota, str], Account] = {}
        self._totals: dict[Quota, int] = dict.fromkeys(ALL, 0)

    def account(self, quota: Quota, user: str) -> Account:
        found = self._accounts.get((quota, user))
        if found is None:
            found = self._accounts[quota, user] = Account(self, quota, user)
        return found

    def hold(self, quota: Quota, user: str, key: Hashable, amount: int = 1, *, limited: bool = True) -> None:
        """See `Account.hold`."""
        self.account(quota, user).hold(key, amount, limited=limited)

    def let_go(self, quota: Quota, user: str, key: Hashable) -> None:
        found = self._accounts.get((quota, user))
        if found is not None:
            found.let_go(key)

    def held(self, quota: Quota, user: str) -> int:
        found = self._accounts.get((quota, user))
        return 0 if found is None else found.held

    def require(self, quota: Quota, account: Account, more: int) -> None:
        """Refuse what would exceed the limit of a user, or that of all.

        Raises:
            UserLimitReached
        """
        attributes = self._attributes()
        limit: int = getattr(attributes, quota.field)
        if account.held + more > limit:
            raise UserLimitReached(account.user, account.held + more, quota.what, limit, quota.keyword)
        if quota.total_field:
            limit = getattr(attributes, quota.total_field)
            if self._totals[quota] + more > limit:
                raise UserLimitReached(_EVERYBODY, self._totals[quota] + more, quota.what, limit, quota.total_keyword)

    def changed(self, quota: Quota, more: int) -> None:
        self._totals[quota] += more

    def forget(self, quota: Quota, user: str) -> None:
        """A user holds nothing any more: names come from outside, and must not fill the memory."""
        self._accounts.pop((quota, user), None)
