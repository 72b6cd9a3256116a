# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.server.security.refusal_counter import MANY, PER_ADDRESS_MAX, TOGETHER_MAX, RefusalCount, RefusalCounter


def test_the_first_hundred_of_a_second_are_written_and_the_rest_counted() -> None:
    floods = RefusalCounter()
    assert floods.ended(1000.0) == []
    assert sum(floods.admits("connect", "10.0.0.1") for _ in range(5000)) == PER_ADDRESS_MAX
    assert floods.ended(1000.9) == []
    assert floods.ended(1001.0) == [RefusalCount("connect", "10.0.0.1", 5000 - PER_ADDRESS_MAX)]
    assert floods.ended(1002.0) == []
    assert floods.admits("connect", "10.0.0.1")


def test_other_addresses_and_other_events_have_lines_of_their_own() -> None:
    floods = RefusalCounter()
    for _ in range(200):
        floods.admits("connect", "10.0.0.1")
    assert floods.admits("connect", "10.0.0.2")
    assert floods.admits("put", "10.0.0.1")


def test_many_addresses_cannot_do_what_one_cannot() -> None:
    floods = RefusalCounter()
    written = sum(floods.admits("connect", f"10.{number >> 8}.{number & 255}.1") for number in range(20_000))
    assert written == TOGETHER_MAX
    counted = floods.ended(1.0)
    assert len(counted) <= TOGETHER_MAX + 1
    assert sum(each.count for each in counted) == 20_000 - written
    assert any(each.address == MANY for each in counted)
    assert sum(floods.admits("connect", f"10.0.{number >> 8}.{number & 255}") for number in range(2000)) == TOGETHER_MAX


def test_a_clock_set_back_begins_another_second() -> None:
    floods = RefusalCounter()
    floods.ended(1000.0)
    for _ in range(PER_ADDRESS_MAX + 1):
        floods.admits("connect", "a")
    assert floods.ended(500.0) == [RefusalCount("connect", "a", 1)]
    assert floods.admits("connect", "a")
