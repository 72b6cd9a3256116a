# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from entrepot import limits
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import InvalidSetting
from folding import for_each


def test_the_defaults_are_valid() -> None:
    settings = LogSettings()
    assert settings.validated() is settings


@for_each(
    ("key", "value"),
    [
        ("kind", "round"),
        ("segment_bytes", limits.LOG_SEGMENT_BYTES_MIN - HEAD_PAGE_BYTES),
        ("segment_bytes", limits.LOG_SEGMENT_BYTES_MAX + HEAD_PAGE_BYTES),
        ("segment_bytes", limits.LOG_SEGMENT_BYTES_MIN + 1),
        ("segment_bytes", 0),
        ("segment_bytes", -HEAD_PAGE_BYTES),
        ("primary", 1),
        ("primary", 511),
        ("secondary", 0),
        ("secondary", 511),
        ("buffer_bytes", 4095),
        ("buffer_bytes", -1),
        ("checkpoint_bytes", -1),
    ],
)
def test_each_wrong_value_is_refused_and_named(key: str, value: object) -> None:
    with pytest.raises(InvalidSetting) as refused:
        msgspec.structs.replace(LogSettings(), **{key: value}).validated()
    assert refused.value.key == f"log {key}"
    assert refused.value.value == str(value)


@for_each(
    ("key", "value"),
    [
        ("kind", "linear"),
        ("segment_bytes", limits.LOG_SEGMENT_BYTES_MIN),
        ("segment_bytes", limits.LOG_SEGMENT_BYTES_MAX),
        ("primary", 2),
        ("primary", 510),
        ("secondary", 1),
        ("secondary", 510),
        ("buffer_bytes", 4096),
        ("checkpoint_bytes", 0),
        ("checkpoint_bytes", 1),
    ],
)
def test_each_extreme_value_is_taken(key: str, value: object) -> None:
    msgspec.structs.replace(LogSettings(), **{key: value}).validated()


def test_a_checkpoint_interval_takes_at_most_a_third_of_the_log() -> None:
    room = LogSettings().segments_max * LogSettings().payload_bytes
    LogSettings(checkpoint_bytes=room // 3).validated()
    with pytest.raises(InvalidSetting, match="checkpoint_bytes"):
        LogSettings(checkpoint_bytes=room // 3 + 1).validated()


def test_the_head_page_is_no_part_of_the_stream() -> None:
    assert LogSettings(segment_bytes=64 * 1024).payload_bytes == 60 * 1024


def test_the_checkpoint_interval_is_a_quarter_of_the_primaries_unless_given() -> None:
    settings = LogSettings(segment_bytes=64 * 1024, primary=4)
    assert settings.checkpoint_interval_bytes == settings.payload_bytes
    assert LogSettings(checkpoint_bytes=12_345).checkpoint_interval_bytes == 12_345
