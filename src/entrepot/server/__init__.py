# SPDX-License-Identifier: Apache-2.0
"""What serves the partners of a queue manager: sessions, the protocols, administration, and who may do what.

`session` is what any protocol offers its users, and knows none of them.
`native`, with the frames of `wire/`, and `amqp/` are adapters of one protocol
each. `mqsc/` is the administration language, `security/` says who may come in
and what is allowed then.
"""

DOORS = (
    "admission",
    "amqp.codec",
    "amqp.engine",
    "amqp.mapping",
    "amqp.protocol",
    "conversation",
    "session_registry",
    "connection_limiter",
    "framed_connection",
    "managed",
    "memory_watch",
    "mqsc",
    "native_connection",
    "security.addresses",
    "security.audit",
    "security.authority",
    "security.credentials",
    "security.distinguished_name",
    "security.originators",
    "security.tls",
    "security.users",
    "served_host",
    "session",
    "supervision",
    "message_checks",
    "wire.codec",
    "wire.error_form",
    "wire.frame",
    "wire.verbs",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""
