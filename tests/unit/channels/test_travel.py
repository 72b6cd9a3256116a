# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.channels import travel
from entrepot.errors import InvalidArgument
from entrepot.message import Message


def test_replies_find_their_way_back() -> None:
    asked = Message(b"", reply_to="R")
    assert travel.leaving(asked, "QM1").reply_to_manager == "QM1"
    passed_on = Message(b"", reply_to="R", reply_to_manager="QM0")
    assert travel.leaving(passed_on, "QM1").reply_to_manager == "QM0"


def test_delay_and_backouts_stay_behind_and_the_last_moment_travels() -> None:
    left = travel.leaving(Message(b"", delay_s=5.0, backout_count=3, expiry_s=0.0), "QM1")
    assert (left.delay_s, left.backout_count) == (0.0, 0)
    assert left.expiry_s is not None
    assert 0 < left.expiry_s < 0.01


def test_destination_is_local_or_passes_through() -> None:
    assert travel.destination(Message(b"", target_queue="Q", target_manager="QM2"), "QM2") == "Q"
    assert travel.destination(Message(b"", target_queue="Q", target_manager="QM3"), "QM2") == "Q@QM3"


def test_identity_stays_and_transport_fields_go() -> None:
    message = Message(b"x", user="ann", application="app", backout_count=2, target_queue="Q", authorized_as="boss")
    kept = travel.checked_message(message, "mover")
    assert (kept.user, kept.application, kept.authorized_as) == ("ann", "app", "mover")
    assert (kept.backout_count, kept.target_queue) == (0, "")


@pytest.mark.parametrize(
    "message",
    [
        Message(b"", priority=10),
        Message(b"", put_time=float("nan")),
        Message(b"", user="u" * 2000),
        Message(b"", application="a" * 2000),
        Message(b"", message_id=b"i" * 200),
        Message(b"", expiry_s=-1.0),
        Message(b"", properties={"x": [1]}),  # type: ignore[dict-item]
    ],
)
def test_what_no_queue_manager_of_ours_would_send_is_refused(message: Message) -> None:
    with pytest.raises(InvalidArgument):
        travel.checked_message(message, "mover")
