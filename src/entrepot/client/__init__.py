# SPDX-License-Identifier: Apache-2.0
"""The client library: connections to queue managers, blocking and for asyncio, near and far.

`aio/` is the source. `blocking/` is generated from it (tools/blocking), but
for its lines and primitives. `core` is the protocol without any I/O.
"""
