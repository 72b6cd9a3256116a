# SPDX-License-Identifier: Apache-2.0
"""The client library: connections to queue managers, blocking and for asyncio, near and far.

`aio/` is the source. `blocking/` is generated from it (tools/blocking), but
for its lines and primitives. `core` is the protocol without any I/O.
"""

DOORS = (
    "address",
    "aio.connecting",
    "aio.connection",
    "aio.consumption",
    "aio.delivery",
    "aio.pipeline",
    "aio.reader",
    "aio.subscription",
    "aio.unit_of_work",
    "blocking",
    "blocking.global_unit",
    "options",
    "worker",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""
