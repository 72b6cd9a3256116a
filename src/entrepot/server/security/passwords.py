# SPDX-License-Identifier: Apache-2.0
"""Passwords as they are kept: scrypt with a salt of its own and the parameters beside it."""

from __future__ import annotations

import hashlib
import hmac
import os

import msgspec

from entrepot import limits

_N = 2**14
_R = 8
_P = 1
_SALT_BYTES = 16
_HASH_BYTES = 32
_MEMORY_BYTES_MAX = 2**30
"""What scrypt may take for its table, 128·n·r bytes; OpenSSL refuses more than 32 MiB unless told."""


class PasswordHash(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a password; the parameters stand here so that later ones may be stronger."""

    scheme: str = "scrypt"
    n: int = _N
    r: int = _R
    p: int = _P
    salt: bytes
    hash: bytes

    def __repr__(self) -> str:
        return "PasswordHash(...)"

    def problem(self) -> str | None:
        """Why it cannot be used, or None; whoever can write the file must not be able to eat all memory with it."""
        if self.scheme != "scrypt":
            return "a password is not hashed with scrypt"
        power_of_two = self.n > 1 and self.n & (self.n - 1) == 0
        if not (power_of_two and self.n <= 2**20 and 1 <= self.r <= 32 and 1 <= self.p <= 16):
            return "a password has scrypt parameters out of range"
        if 128 * self.n * self.r > _MEMORY_BYTES_MAX:
            return "a password has scrypt parameters out of range"
        if len(self.salt) < _SALT_BYTES or len(self.hash) != _HASH_BYTES:
            return "a password's salt or hash is too short"
        return None


USABLE = "at least one character that is no space, and no NUL"


def is_usable(password: str) -> bool:
    """Whether this can be anyone's password at all."""
    # Scrypt's HMAC fills a short key with NULs, so one at the end would not make another password.
    return bool(password.strip()) and "\0" not in password


def hash_password(password: str) -> PasswordHash:
    """A password ready to be stored; tens of milliseconds, on purpose."""
    salt = os.urandom(_SALT_BYTES)
    return PasswordHash(salt=salt, hash=_scrypt(as_bytes(password), salt, _N, _R, _P))


def matches(password: str, stored: PasswordHash) -> bool:
    """Whether it is this password; takes as long for a wrong one as for a right one."""
    found = _scrypt(as_bytes(password), stored.salt, stored.n, stored.r, stored.p)
    return hmac.compare_digest(found, stored.hash)


def dummy() -> PasswordHash:
    """What the password of an unknown user is compared with: the same work, and nobody knows the password."""
    return PasswordHash(salt=os.urandom(_SALT_BYTES), hash=os.urandom(_HASH_BYTES))


def as_bytes(password: str) -> bytes:
    # A text that is no Unicode cannot be anyone's password, but must cost what others cost; and what is
    # longer than any password we accept is cut, so that a flood of long ones is not dearer than short ones.
    return password.encode("utf-8", "surrogatepass")[: limits.TEXT_BYTES_MAX + 1]


def _scrypt(password: bytes, salt: bytes, n: int, r: int, p: int) -> bytes:
    # Beside the table there are p + 2 blocks of 128·r bytes.
    maxmem = _MEMORY_BYTES_MAX + 1024 * 1024
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=maxmem, dklen=_HASH_BYTES)
