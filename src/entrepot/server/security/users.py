# SPDX-License-Identifier: Apache-2.0
"""The users of a queue manager, their groups and their hashed passwords, in `users.json` of its folder.

    {"format": 1, "users": {
        "alice": {"groups": ["mqm"],
                  "password": {"scheme": "scrypt", "n": 16384, "r": 8, "p": 1, "salt": "...", "hash": "..."}}}}

The file is read when it has changed, so that `entrepot qm user` works
beside a running queue manager. While it cannot be used, nobody has a
password: a queue manager must not go on with users who may have been
removed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pwd
import re
import threading
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

import msgspec

from entrepot import checks, private_file
from entrepot.errors import InvalidArgument, SecurityFileUnusable
from entrepot.server.security import passwords
from entrepot.server.security.passwords import PasswordHash

FILE = "users.json"
ADMINISTRATORS = "mqm"
"""The group that may do everything, called as in MQ."""

_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}", re.ASCII)


def own_names() -> frozenset[str]:
    """The system users who are administrators on this machine, and over no network: ours, and root."""
    try:
        return frozenset({"root", pwd.getpwuid(os.geteuid()).pw_name})
    except KeyError:
        return frozenset({"root", str(os.geteuid())})


class User(msgspec.Struct, frozen=True, kw_only=True):
    groups: tuple[str, ...] = ()
    password: PasswordHash


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    users: dict[str, User]


class Users:
    """Who has a password here; safe to use from several threads at once."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._users: Mapping[str, User] = {}
        self._groups: Mapping[str, frozenset[str]] = {}
        self._administrators: frozenset[str] = frozenset()
        self._stamp = private_file.ABSENT
        self._dummy = passwords.dummy()
        self._proofs = _Proofs()
        self._lock = threading.Lock()

    @classmethod
    def load(cls, folder: Path) -> Users:
        """The users of the queue manager in a folder; without a file there are none.

        Raises:
            FileNotPrivate: Others could read or have written the file.
            SecurityFileUnusable: It is no file of users.
        """
        users = cls(folder)
        users.refresh()
        return users

    def __repr__(self) -> str:
        return f"Users({len(self._users)} in {self._path})"

    # --- questions --------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._users))

    def groups_of(self, name: str) -> frozenset[str]:
        """His groups; nobody's are empty. The same object until the users change, so it is cheap as a key."""
        return self._groups.get(name, frozenset())

    def knows(self, name: str) -> bool:
        return name in self._users

    def administrators(self) -> frozenset[str]:
        return self._administrators

    def verify(self, name: str, password: str) -> bool:
        """Whether this is the user's password.

        Takes tens of milliseconds of a processor, the same for an unknown
        user, a wrong and a blank password, so call it in a thread. A
        password that was right since the start is known again at once,
        until the user has another or is removed.
        """
        stored, known = self._stored(name)
        if self._proofs.has(name, password, stored):
            return True
        right = passwords.matches(password, stored)
        if not (right and known and passwords.is_usable(password)):
            return False
        self._proofs.add(name, password, stored)
        return True

    def is_proven(self, name: str, password: str) -> bool:
        """Whether `verify` would answer yes without hashing; microseconds, so an event loop may ask.

        A no says nothing: ask `verify` then.
        """
        return self._proofs.has(name, password, self._stored(name)[0])

    def _stored(self, name: str) -> tuple[PasswordHash, bool]:
        user = self._users.get(name)
        return (self._dummy, False) if user is None else (user.password, True)

    # --- changes ----------------------------------------------------------------------------------

    def add(self, name: str, password: str, groups: Iterable[str] = ()) -> None:
        """Let a user in, or give one another password and other groups; kept by `save`.

        Raises:
            InvalidArgument: The name or a group's cannot be one, or the password is blank or too long.
        """
        _require_name("name", name)
        wanted = tuple(sorted({_require_name("group", group) for group in groups}))
        checks.text("password", password)
        if not passwords.is_usable(password):
            raise InvalidArgument("password", "it is blank or has a NUL", passwords.USABLE)
        user = User(groups=wanted, password=passwords.hash_password(password))
        with self._lock:
            self._take({**self._users, name: user})

    def remove(self, name: str) -> None:
        """Let a user in no more; kept by `save`.

        Raises:
            InvalidArgument: There is no such user.
        """
        with self._lock:
            if name not in self._users:
                raise InvalidArgument("name", f"there is no user {checks.shortened(name)}", "one of those listed")
            self._take({other: user for other, user in self._users.items() if other != name})

    def save(self) -> None:
        """Write the file; it is on disk when this returns.

        Raises:
            SecurityFileUnusable: Somebody else changed it since it was read, or the disk did not take it. The
                file is as it was.
        """
        with self._lock:
            content = msgspec.json.encode(_File(format=_FORMAT, users=dict(sorted(self._users.items()))))
            with private_file.alone(self._path, self._stamp):
                self._stamp = private_file.replace(self._path, msgspec.json.format(content) + b"\n")

    def refresh(self) -> bool:
        """Read the file again if it has changed; True if it has, and what was derived from the users is stale.

        Raises:
            FileNotPrivate, SecurityFileUnusable: Nobody has a password until the file is mended.
        """
        with self._lock:
            try:
                if private_file.stamp(self._path) == self._stamp:
                    return False
                content, stamp = private_file.read(self._path)
                users = _decode(self._path, content) if stamp != private_file.ABSENT else {}
            except Exception:
                self._take({})
                self._stamp = private_file.ABSENT
                raise
            self._take(users)
            self._stamp = stamp
        return True

    def _take(self, users: Mapping[str, User]) -> None:
        # One assignment each, so that a thread that verifies sees the old users or the new ones.
        self._users = users
        self._groups = {name: frozenset(user.groups) for name, user in users.items()}
        self._administrators = frozenset(name for name, groups in self._groups.items() if ADMINISTRATORS in groups)
        self._proofs.keep(users)


class _Proofs:
    """Passwords that were right since the start, under a key that never leaves this process.

    Thousands of clients may connect again at once; to hash each password
    anew would take minutes. The stored hash is a part of the digest, so a
    password that was changed is not found again.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._digests: dict[str, bytes] = {}

    def has(self, name: str, password: str, stored: PasswordHash) -> bool:
        known = self._digests.get(name, b"")
        return hmac.compare_digest(known, self._digest(name, password, stored))

    def add(self, name: str, password: str, stored: PasswordHash) -> None:
        self._digests[name] = self._digest(name, password, stored)

    def keep(self, names: Container[str]) -> None:
        """Forget all others."""
        self._digests = {name: digest for name, digest in self._digests.items() if name in names}

    def _digest(self, name: str, password: str, stored: PasswordHash) -> bytes:
        made = hmac.new(self._key, digestmod=hashlib.sha256)
        # With their lengths, so that "ab" and "c" are not "a" and "bc".
        for part in (passwords.as_bytes(name), passwords.as_bytes(password), stored.salt, stored.hash):
            made.update(len(part).to_bytes(8, "big") + part)
        return made.digest()


def _require_name(argument: str, name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        expected = "1 to 64 characters out of A-Z a-z 0-9 . _ @ -, not beginning with . @ or -"
        raise InvalidArgument(argument, f"{checks.shortened(name)} is no name", expected)
    return name


def _decode(path: Path, content: bytes) -> dict[str, User]:
    try:
        file = msgspec.json.decode(content, type=_File)
    except (msgspec.MsgspecError, ValueError) as error:
        raise SecurityFileUnusable(str(path), f"it is no file of users ({error})") from None
    if file.format != _FORMAT:
        raise SecurityFileUnusable(str(path), f"it has format {file.format}, this Entrepot reads {_FORMAT}")
    for name, user in file.users.items():
        problem = user.password.problem()
        if not _NAME.fullmatch(name):
            problem = "a user's name cannot be one"
        if problem is not None:
            raise SecurityFileUnusable(str(path), problem)
    return file.users
