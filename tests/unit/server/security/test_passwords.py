# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from entrepot import limits
from entrepot.server.security import passwords
from folding import for_each

SOUND = passwords.PasswordHash(salt=b"s" * 16, hash=b"h" * 32)


@for_each(
    "change",
    [
        *({"n": 2}, {"n": 4}, {"n": 2**20}, {"r": 1}, {"r": 32}, {"p": 1}, {"p": 16}, {"salt": b"s" * 17}, {}),
        {"n": 2**18, "r": 32},
        {"n": 2**20, "r": 8, "p": 16},
    ],
)
def test_parameters_up_to_the_limits_are_usable(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(SOUND, **change).problem() is None


@for_each(
    ("change", "problem"),
    [
        ({"scheme": "plain"}, "a password is not hashed with scrypt"),
        ({"n": -2}, "a password has scrypt parameters out of range"),
        ({"n": 0}, "a password has scrypt parameters out of range"),
        ({"n": 1}, "a password has scrypt parameters out of range"),
        ({"n": 3}, "a password has scrypt parameters out of range"),
        ({"n": 6}, "a password has scrypt parameters out of range"),
        ({"n": 2**14 - 1}, "a password has scrypt parameters out of range"),
        ({"n": 2**21}, "a password has scrypt parameters out of range"),
        ({"n": 2**21, "r": 1}, "a password has scrypt parameters out of range"),
        ({"r": 0}, "a password has scrypt parameters out of range"),
        ({"r": 33}, "a password has scrypt parameters out of range"),
        ({"p": 0}, "a password has scrypt parameters out of range"),
        ({"p": 17}, "a password has scrypt parameters out of range"),
        ({"n": 2**20, "r": 9}, "a password has scrypt parameters out of range"),
        ({"n": 2**19, "r": 32}, "a password has scrypt parameters out of range"),
        ({"salt": b"s" * 15}, "a password's salt or hash is too short"),
        ({"hash": b"h" * 31}, "a password's salt or hash is too short"),
        ({"hash": b"h" * 33}, "a password's salt or hash is too short"),
    ],
)
def test_parameters_beyond_the_limits_are_told(change: dict[str, Any], problem: str) -> None:
    assert msgspec.structs.replace(SOUND, **change).problem() == problem


@pytest.mark.parametrize(("n", "r", "p"), [(2, 1, 1), (2**15, 8, 1), (2, 32, 16), (2**14, 17, 2)])
def test_whatever_is_within_the_limits_can_be_computed(n: int, r: int, p: int) -> None:
    """OpenSSL has limits of its own for the memory, which stronger parameters would meet."""
    stored = msgspec.structs.replace(SOUND, n=n, r=r, p=p)
    assert stored.problem() is None
    assert not passwords.matches("secret", stored)


@pytest.mark.parametrize(("n", "r"), [(2**20, 8), (2**18, 32), (2, 32)])
def test_the_strongest_parameters_are_computed_too(monkeypatch: pytest.MonkeyPatch, n: int, r: int) -> None:
    """They take a gigabyte, so what counts is how much memory OpenSSL is allowed."""
    allowed: list[int] = []
    monkeypatch.setattr(hashlib, "scrypt", lambda password, **named: (allowed.append(named["maxmem"]), b"")[1])
    stored = msgspec.structs.replace(SOUND, n=n, r=r, p=16)
    passwords.matches("secret", stored)
    assert stored.problem() is None
    assert 128 * r * (n + 16 + 2) < allowed[0] < 2**31, "OpenSSL takes no more than that"


def test_a_new_hash_is_sound_and_matches_its_own_password_only() -> None:
    stored = passwords.hash_password("secret")
    assert stored.problem() is None
    assert passwords.matches("secret", stored)
    assert not passwords.matches("Secret", stored)
    assert passwords.hash_password("secret").salt != stored.salt


def test_a_dummy_costs_as_much_as_a_password_and_is_another_each_time() -> None:
    dummies = [passwords.dummy(), passwords.dummy()]
    assert all(dummy.problem() is None for dummy in dummies)
    assert dummies[0].hash != dummies[1].hash
    assert dummies[0].salt != dummies[1].salt
    ours = passwords.hash_password("secret")
    assert all((dummy.n, dummy.r, dummy.p) == (ours.n, ours.r, ours.p) for dummy in dummies)


def test_a_blank_password_and_one_with_a_nul_are_nobodys() -> None:
    assert passwords.is_usable(" x ")
    assert not any(passwords.is_usable(wrong) for wrong in ("", " ", "\t\n", "\0", "x\0", "x\0y"))


def test_what_is_longer_than_any_password_is_cut_behind_its_end() -> None:
    longest = "x" * limits.TEXT_BYTES_MAX
    assert passwords.as_bytes(longest) == longest.encode()
    assert passwords.as_bytes(longest + "y") != passwords.as_bytes(longest)
    assert len(passwords.as_bytes(longest * 1000)) == limits.TEXT_BYTES_MAX + 1
