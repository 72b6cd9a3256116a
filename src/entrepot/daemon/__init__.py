# SPDX-License-Identifier: Apache-2.0
"""A queue manager as a process: `server` puts host, listeners, sessions and channels together."""

DOORS = ("server",)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""
