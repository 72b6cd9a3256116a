# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.engine.criteria import Criteria
from entrepot.message import Message
from entrepot.selectors import compile_selector
from folding import for_each

MESSAGE = Message(b"", message_id=b"m", correlation_id=b"c", group_id=b"g", properties={"n": 1})


@for_each(
    ("criteria", "expected"),
    [
        (Criteria(), True),
        (Criteria(message_id=b"m"), True),
        (Criteria(message_id=b"x"), False),
        (Criteria(correlation_id=b"c", group_id=b"g"), True),
        (Criteria(correlation_id=b"c", group_id=b"x"), False),
        (Criteria(selector=compile_selector("n = 1")), True),
        (Criteria(selector=compile_selector("n = 2")), False),
        (Criteria(selector=compile_selector("missing = 2")), False),
        (Criteria(message_id=b"m", selector=compile_selector("n = 1"), whole_group=True), True),
    ],
)
def test_all_that_are_given_must_hold(criteria: Criteria, expected: bool) -> None:
    assert criteria.matches(MESSAGE) is expected


def test_equal_criteria_are_one_question() -> None:
    one, two = (Criteria(message_id=b"m", selector=compile_selector("n = 1")) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)


def test_ids_cost_one_step_and_a_selector_what_it_says() -> None:
    selector = compile_selector("n = 1 OR n = 2 OR n = 3")
    assert Criteria(message_id=b"m", correlation_id=b"c").steps_for(MESSAGE) == 1
    assert Criteria(selector=selector).steps_for(MESSAGE) == selector.steps_for(MESSAGE) > 1
