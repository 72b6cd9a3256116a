# SPDX-License-Identifier: Apache-2.0
"""What campaigns of frames raise."""

from __future__ import annotations


class Finding(Exception):
    """What a compiled parser has done must not be done."""
