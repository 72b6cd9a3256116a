# SPDX-License-Identifier: Apache-2.0
"""When a channel was started, as DISPLAY CHSTATUS shows it."""

from __future__ import annotations

from datetime import datetime


def started(seconds: float) -> dict[str, str]:
    """Date and time of this machine's zone, as MQ has them: CHSTADA and CHSTATI; empty for a channel that was not."""
    when = datetime.fromtimestamp(seconds).astimezone() if seconds else None
    return {"CHSTADA": f"{when:%Y-%m-%d}" if when else "", "CHSTATI": f"{when:%H.%M.%S}" if when else ""}
