# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from entrepot.channels.started import started


def test_date_and_time_are_readable() -> None:
    assert started(0.0) == {"CHSTADA": "", "CHSTATI": ""}
    shown = started(1_795_000_000.5)
    assert re.fullmatch(r"2026-11-1\d", shown["CHSTADA"])
    assert re.fullmatch(r"\d\d\.\d\d\.\d\d", shown["CHSTATI"])
