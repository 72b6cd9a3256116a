# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.recovery_log.group import GROUP_BYTES, SALT_BYTES, Group, GroupKey, UnsaltedKey
from entrepot.engine.recovery_log.record import FRAME_HEAD_BYTES, BadFrame, parse_head
from folding import for_each

from .logs import KEY, SALT

U32 = st.integers(0, 2**32 - 1)
U63 = st.integers(0, 2**63 - 1)
U64 = st.integers(0, 2**64 - 1)
TIMES = st.floats(0, 4e9)


def made(key: GroupKey, position: int, group: Group) -> bytes:
    check, seed = key.secrets(position, group.incarnation, group.serial, group.previous)
    group.check = check
    return key.frame(group, position, seed)


def parsed(key: GroupKey | UnsaltedKey, data: bytes, position: int) -> Group:
    head, payload = data[:FRAME_HEAD_BYTES], data[FRAME_HEAD_BYTES:]
    length, kind, crc = parse_head(head, position)
    assert (length, kind) == (len(payload), 1)
    return key.parse(head, payload, crc)[0]


UNSALTED = bytes.fromhex(
    "20000000 01000000 0000000000000000 d3bf3111 7e00000000000000 0000000000000000 01000000 01000000 00000040fc54d941"
)
"""A group of format 2: CRC seed 0, and everything in it can be guessed."""
GROUPS = st.builds(Group, U63, U63, U32, U32, TIMES, U64)


@given(GROUPS, U63)
def test_a_group_is_read_as_written_and_its_size_is_known_beforehand(group: Group, position: int) -> None:
    data = made(KEY, position, group)
    assert len(data) == GROUP_BYTES
    assert data.startswith(KEY.mark)
    assert parsed(KEY, data, position) == group


@given(GROUPS, U63, st.data())
def test_a_group_with_any_bit_flipped_is_none(group: Group, position: int, data: st.DataObject) -> None:
    flipped = bytearray(made(KEY, position, group))
    flipped[data.draw(st.integers(0, GROUP_BYTES - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((BadFrame, AssertionError)):
        parsed(KEY, bytes(flipped), position)


def test_a_group_made_with_another_salt_is_none_and_shares_nothing_with_ours() -> None:
    other = GroupKey(bytes(SALT_BYTES))
    group = Group(100, 0, 1, 1, 1.7e9)
    with pytest.raises(BadFrame, match="check"):
        parsed(KEY, made(other, 50, group), 50)
    assert KEY.mark != other.mark
    ours, theirs = KEY.secrets(50, 1, 1, 0), other.secrets(50, 1, 1, 0)
    assert ours.check != theirs.check and ours.seed != theirs.seed


def test_whoever_guesses_the_check_still_needs_the_seed() -> None:
    group = Group(100, 0, 1, 1, 1.7e9, 0, KEY.secrets(50, 1, 1, 0).check)
    with pytest.raises(BadFrame, match="CRC"):
        parsed(KEY, KEY.frame(group, 50, seed=0), 50)


def test_place_start_serial_and_predecessor_all_change_what_is_secret() -> None:
    places = [(0, 1, 1, 0), (1, 1, 1, 0), (0, 2, 1, 0), (0, 1, 2, 0), (0, 1, 1, 1)]
    secrets = [KEY.secrets(*place) for place in places]
    assert len({secret.check for secret in secrets}) == len({secret.seed for secret in secrets}) == len(places)


def test_groups_without_salt_are_not_taken_for_groups_with_one() -> None:
    assert parsed(UnsaltedKey(), UNSALTED, 0) == Group(126, 0, 1, 1, 1.7e9)
    with pytest.raises(BadFrame, match="format"):
        parsed(KEY, UNSALTED, 0)
    with pytest.raises(BadFrame, match="format"):
        parsed(UnsaltedKey(), made(KEY, 0, Group(126, 0, 1, 1, 1.7e9)), 0)


@for_each("offset", range(len(UNSALTED)))
def test_a_group_without_salt_with_any_byte_changed_is_none(offset: int) -> None:
    changed = UNSALTED[:offset] + bytes([UNSALTED[offset] ^ 0x10]) + UNSALTED[offset + 1 :]
    with pytest.raises((BadFrame, AssertionError)):
        parsed(UnsaltedKey(), changed, 0)


def test_the_bytes_of_a_group_never_change() -> None:
    """If this fails the format has changed: docs/RECOVERY_LOG.md says what to do."""
    data = made(GroupKey(SALT), 0x0102030405060708, Group(126, 99, 3, 7, 1.7e9, 11))
    assert data.hex(" ", -4) == (
        "30000000 0159fe32 08070605 04030201 170837fa 7e000000 00000000 63000000 00000000 "
        "03000000 07000000 00000040 fc54d941 0b000000 00000000 73dbbe49 68072345"
    )
