# SPDX-License-Identifier: Apache-2.0
"""Between queue managers: senders and receivers, their batches, and the initiator that starts them.

Sessions of clients and the link below both are in the room `server`.
"""

DOORS = (
    "dialler",
    "initiator",
    "neighbours",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""
