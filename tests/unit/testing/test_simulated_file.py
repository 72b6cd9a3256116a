# SPDX-License-Identifier: Apache-2.0
"""Which contents a power cut may leave of one file: all outcomes are collected over many seeds."""

from __future__ import annotations

import copy
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from entrepot.testing.simulated_file import SECTOR_BYTES, SimulatedContents

SEEDS = 400
A, B, C, ZERO = (letter * SECTOR_BYTES for letter in (b"A", b"B", b"C", b"\0"))


def outcomes(contents: SimulatedContents) -> set[bytes]:
    """Everything that power cuts leave."""
    seen = set()
    for seed in range(SEEDS):
        twin = copy.deepcopy(contents)
        twin.power_cut(Random(seed))
        seen.add(bytes(twin.bytes))
    return seen


def forced(data: bytes) -> SimulatedContents:
    contents = SimulatedContents()
    contents.write(0, data)
    contents.force()
    return contents


def test_forced_write_is_never_lost() -> None:
    assert outcomes(forced(A + B)) == {A + B}


def test_unforced_sectors_survive_or_are_lost_each_on_its_own() -> None:
    contents = forced(A + A)
    contents.write(0, B + B)
    assert outcomes(contents) == {A + A, A + B, B + A, B + B}


def test_write_within_a_sector_is_never_torn() -> None:
    contents = forced(A)
    contents.write(100, b"B" * 50)
    assert outcomes(contents) == {A, b"A" * 100 + b"B" * 50 + b"A" * 362}


def test_write_over_a_sector_boundary_is_torn_there() -> None:
    contents = forced(A + A)
    contents.write(500, b"B" * 24)
    new = b"A" * 500 + b"B" * 24 + b"A" * 500
    assert outcomes(contents) == {A + A, new, new[:512] + A, A + new[512:]}


def test_sector_written_twice_is_found_in_any_of_its_versions() -> None:
    contents = forced(A)
    contents.write(0, B)
    contents.write(0, C)
    assert outcomes(contents) == {A, B, C}


def test_later_write_may_survive_without_the_earlier_one() -> None:
    contents = forced(A + A)
    contents.write(0, B)
    contents.write(512, C)
    assert A + C in outcomes(contents)


def test_unforced_growth_is_lost_or_present_in_part_or_with_holes() -> None:
    contents = forced(A)
    contents.write(512, B + C)
    expected = {A} | {A + first for first in (B, ZERO)}
    expected |= {A + first + second for first in (B, ZERO) for second in (C, ZERO)}
    assert outcomes(contents) == expected


def test_gap_before_a_write_reads_as_zeros() -> None:
    contents = forced(b"A")
    contents.write(1024, b"B")
    assert contents.bytes == b"A" + bytes(1023) + b"B"
    assert {b"A", bytes(contents.bytes)} <= outcomes(contents)


def test_unforced_truncate_happens_or_not() -> None:
    contents = forced(A + B)
    contents.truncate(512)
    assert outcomes(contents) == {A + B, A}


def test_truncated_bytes_return_only_with_the_whole_truncate_undone() -> None:
    contents = forced(A + B)
    contents.truncate(0)
    contents.write(0, C + C)
    left = outcomes(contents)
    assert A + B in left
    assert {b"", C, ZERO, C + ZERO, ZERO + C, ZERO + ZERO, C + C} <= left
    # Neither may old bytes follow a truncate that happened, nor new ones precede one that did not.
    assert not {A + C, C + B, A + ZERO, ZERO + B} & left


def test_growth_by_truncate_is_zeros() -> None:
    contents = forced(b"A")
    contents.truncate(3)
    assert contents.bytes == b"A\0\0"
    assert outcomes(contents) == {b"A", b"A\0\0"}


def test_write_of_nothing_changes_nothing() -> None:
    contents = SimulatedContents()
    contents.write(4096, b"")
    assert contents.bytes == b""


def test_failed_force_loses_its_sectors_although_a_later_force_succeeds() -> None:
    contents = forced(A + A)
    contents.write(0, B)
    contents.fail_force()
    contents.write(512, C)
    contents.force()
    assert contents.bytes == B + C, "memory still shows what the medium does not have"
    assert outcomes(contents) == {A + C}


def test_sector_written_again_after_a_failed_force_is_saved_by_the_next() -> None:
    contents = forced(A)
    contents.write(0, b"B")
    contents.fail_force()
    contents.force()
    contents.write(1, b"C")
    assert outcomes(contents) == {A, b"BC" + A[2:]}
    contents.force()
    assert outcomes(contents) == {b"BC" + A[2:]}


def test_growth_in_a_failed_force_leaves_a_hole_once_a_later_force_succeeds() -> None:
    contents = forced(A)
    contents.write(512, B)
    contents.fail_force()
    assert outcomes(contents) == {A, A + ZERO}
    contents.force()
    assert outcomes(contents) == {A + ZERO}


def test_truncate_in_a_failed_force_still_hides_old_bytes_after_growth() -> None:
    contents = forced(A + A)
    contents.truncate(0)
    contents.fail_force()
    contents.write(512, B)
    contents.force()
    assert outcomes(contents) == {ZERO + B}


def test_what_a_power_cut_left_survives_the_next() -> None:
    contents = forced(A + A)
    contents.write(0, B + B)
    contents.power_cut(Random(7))
    assert outcomes(contents) == {bytes(contents.bytes)}


changes = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3000), st.binary(min_size=1, max_size=1500)),
        st.tuples(st.just("truncate"), st.integers(0, 3000), st.just(b"")),
        st.tuples(st.just("force"), st.just(0), st.just(b"")),
    ),
    max_size=12,
)


@given(changes, st.integers(0, 2**32))
def test_each_sector_left_is_one_it_once_was(changes: list[tuple[str, int, bytes]], seed: int) -> None:
    contents = SimulatedContents()
    states = [b""]
    for verb, where, data in changes:
        if verb == "write":
            contents.write(where, data)
        elif verb == "truncate":
            contents.truncate(where)
        else:
            contents.force()
            states.clear()
        states.append(bytes(contents.bytes))
    contents.power_cut(Random(seed))
    for start in range(0, len(contents.bytes), SECTOR_BYTES):
        sector = bytes(contents.bytes[start : start + SECTOR_BYTES])
        padded = (state[start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0") for state in states)
        assert any(state[: len(sector)] == sector for state in padded)
    sizes = [len(state) for state in states]
    assert min(sizes) <= len(contents.bytes) <= max(sizes)
    if len(states) == 1:
        assert contents.bytes == states[0]


def test_force_of_the_last_write_leaves_earlier_ones_elsewhere_to_chance() -> None:
    contents = forced(A + A)
    contents.write(512, B)
    contents.write(0, C)
    contents.force_last()
    assert outcomes(contents) == {C + A, C + B}


def test_after_a_force_of_a_sector_it_is_found_as_it_was_then_or_later() -> None:
    contents = forced(A + A)
    contents.write(0, B + B)
    contents.write(0, C)
    contents.force_last()
    contents.write(0, A)
    assert outcomes(contents) == {C + A, C + B, A + A, A + B}


def test_force_of_a_sector_makes_good_what_a_failed_force_had_lost_there() -> None:
    contents = forced(A + A)
    contents.write(0, B + B)
    contents.fail_force()
    contents.write(0, C)
    contents.force_last()
    assert outcomes(contents) == {C + A}
    contents.write(0, B)
    contents.fail_force()
    contents.force()
    assert outcomes(contents) == {C + A}
