# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from unit.channels.conftest import founded

__all__ = ["founded"]
