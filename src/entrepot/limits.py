# SPDX-License-Identifier: Apache-2.0
"""Every limit and default size in one place, with MQ's name for it where MQ has one."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

NAME_CHARACTERS_MAX = 48
"""Queue and other object names; MQ's MQ_OBJECT_NAME_LENGTH."""

BODY_BYTES_MAX = 100 * MIB
"""MAXMSGL of the queue manager; a queue may lower it."""

BODY_BYTES_DEFAULT = 4 * MIB
"""MAXMSGL of a new queue, as in MQ."""

ID_BYTES_MAX = 128
"""Message, correlation and group ids. MQ's have 24 bytes; AMQP and JMS ids can be longer."""

TEXT_BYTES_MAX = 1024
"""Descriptor texts such as user, application and format, in UTF-8."""

PROPERTIES_MAX = 1000
PROPERTY_NAME_CHARACTERS_MAX = 4095
PROPERTIES_BYTES_MAX = 1 * MIB

DEPTH_DEFAULT = 5_000
"""MAXDEPTH of a new queue, as in MQ."""
DEPTH_MAX = 999_999_999

PRIORITY_MAX = 9

UNCOMMITTED_MESSAGES_DEFAULT = 10_000
"""MAXUMSGS: messages put or got in one unit of work."""
UNCOMMITTED_BYTES_MAX = 512 * MIB
"""Bodies that one unit of work holds in memory until it commits."""

TRANSACTION_ID_BYTES_MAX = 140
"""An XA identifier: 4 + 4 + 4 + 64 + 64 bytes."""

BRANCHES_MAX = 32
"""Databases that one global unit of work may have."""

BRANCH_ID_BYTES_MAX = 199
"""What PostgreSQL takes; others take fewer, and ours have about 50."""

TRANSACTIONS_ASKED_MAX = 500
"""Transaction ids whose outcome can be asked with one verb, and unfinished branches that it tells."""

DISTRIBUTION_MAX = 10_000
"""Queues that one put may name."""

QUEUE_BUFFER_BYTES_DEFAULT = 256 * MIB
"""Memory for one queue's messages; beyond it they go to disk in arrival order."""

RUN_BYTES = 4 * MIB
"""How much of a queue goes to disk, or comes back, at a time."""

CLAIM_NAME_CHARACTERS_MAX = 200
EPOCH_MAX = 2**62
EPOCH_STEP_MAX = 1_000_000
"""By how much a claim may raise the epoch of a name: so no number of claims ever reaches EPOCH_MAX."""
CLAIM_STATUS_BYTES_MAX = 16 * KIB
"""What a claim may say about itself, as JSON."""

SELECTOR_CHARACTERS_MAX = 10_240
SELECTOR_DEPTH_MAX = 100
SELECTOR_GAPPED_LIKES_MAX = 16
"""Patterns of one selector that have `_` beside text between two `%`: these look at a text character by character."""
SELECTOR_TEXT_CHARACTERS_MAX = 8_192
"""LIKE, and a comparison of two properties, look at no longer text: their truth is UNKNOWN for it."""

LOG_SEGMENT_BYTES_DEFAULT = 32 * MIB
LOG_SEGMENT_BYTES_MIN = 64 * KIB
LOG_SEGMENT_BYTES_MAX = 4096 * MIB
LOG_PRIMARY_DEFAULT = 4
LOG_SECONDARY_DEFAULT = 4
LOG_BUFFER_BYTES_DEFAULT = 4 * MIB
"""Records that gather in memory before they are written although no caller waits for them."""

SUBSCRIPTION_NAME_CHARACTERS_MAX = 1_024
"""MQ's MQ_SUB_NAME_LENGTH is 10,240, more than is ever typed."""
SUBSCRIPTIONS_PER_CONNECTION_MAX = 200_000

FRAME_OVERHEAD_BYTES_MAX = 2 * MIB
"""What a frame may have beside a message's body: properties, descriptor, the names of a distribution list."""

CONSUMER_CREDIT_MAX = 100_000
"""Messages that may be on their way to one consumer."""

UNITS_PER_CONNECTION_MAX = 1_000
"""Units of work that one connection may have open."""
WAITING_PER_CONNECTION_MAX = 10_000
"""Gets that one connection may have waiting, and its consumers."""

RUN_MEMORY_BYTES_MAX = 1024 * MIB
"""What the process may grow by while an ESQL program takes more and more steps on one message."""

# --- what one user may hold at a time; attributes of the queue manager, for ALTER QMGR ---

USER_UNCOMMITTED_BYTES_DEFAULT = 512 * MIB
"""USRUOWB: messages in open and prepared units of work, in memory."""
USER_PREPARED_DEFAULT = 500
"""USRPREP."""
PREPARED_DEFAULT = 5_000
"""MAXPREP: prepared units of all users."""
USER_PERMANENT_QUEUES_DEFAULT = 1_000
"""USRPERMQ: permanent dynamic queues."""
USER_TEMPORARY_QUEUES_DEFAULT = 5_000
"""USRTEMPQ: temporary dynamic queues."""
USER_DURABLE_SUBSCRIPTIONS_DEFAULT = 5_000
"""USRDSUB."""
USER_CLAIMS_DEFAULT = 10_000
"""USRCLAIM: names whose epochs are remembered, together with the prefixes that numbers were given for."""
CLAIMS_DEFAULT = 100_000
"""MAXCLAIM: names of all users."""
USER_WAITING_DEFAULT = 50_000
"""USRWAIT: gets that wait, and consumers."""
USER_CONNECTIONS_DEFAULT = 10_000
"""USRCONN."""
UNIT_AGE_S_DEFAULT = 3600
"""UOWAGE: an open unit of work of a connection is backed out after so long."""
