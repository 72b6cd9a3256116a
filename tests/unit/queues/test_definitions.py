# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.errors import InvalidName
from entrepot.queues.definitions import KINDS, LocalQueue, ModelQueue, require_name, system_objects


@pytest.mark.parametrize("name", ["Q", "a.b_c/d%9", "x" * 48])
def test_name_of_the_allowed_characters_is_one(name: str) -> None:
    assert require_name("queue", name) == name


@pytest.mark.parametrize("name", ["", "x" * 49, "a b", "a\n", "\u00e4", "\u0661", "a*", "'a'", None, 5, b"Q", ["Q"]])
def test_anything_else_is_no_name(name: object) -> None:
    with pytest.raises(InvalidName) as caught:
        require_name("queue", name)
    assert "queue" in str(caught.value)


def test_every_kind_is_known_by_its_word() -> None:
    assert set(KINDS) == {"QMGR", "QLOCAL", "QMODEL", "QALIAS", "QREMOTE", "PROCESS", "NAMELIST"}


def test_model_has_every_attribute_of_the_queues_made_from_it() -> None:
    assert set(LocalQueue.__struct_fields__) - {"dynamic"} == set(ModelQueue.__struct_fields__) - {"dynamic_kind"}


def test_new_queue_manager_has_its_system_objects() -> None:
    assert {definition.name for definition in system_objects()} >= {
        "SYSTEM.DEAD.LETTER.QUEUE",
        "SYSTEM.DEFAULT.MODEL.QUEUE",
        "SYSTEM.DEFAULT.INITIATION.QUEUE",
        "SYSTEM.ADMIN.PERFM.EVENT",
    }
