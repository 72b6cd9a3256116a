# SPDX-License-Identifier: Apache-2.0
"""What an administrator defines: queues of every kind, channels, rules, authorities, the queue manager itself.

These are plain values. MQSC reads and writes them, the recovery log stores
them by field name, the queue manager gives them life. MQ's keyword for each
field stands in server/mqsc/keywords.py.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal

import msgspec

from entrepot import limits
from entrepot.errors import InvalidName

_NAME = re.compile(rf"[A-Za-z0-9._/%]{{1,{limits.NAME_CHARACTERS_MAX}}}", re.ASCII)


def require_name(kind: str, name: object) -> str:
    """The name itself when it is one; names never reach the file system."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidName(kind, str(name))
    return name


def require_subscription_name(name: object) -> str:
    """The name itself when a subscription may have it: any text that can be printed."""
    if isinstance(name, str) and 0 < len(name) <= limits.SUBSCRIPTION_NAME_CHARACTERS_MAX and name.isprintable():
        return name
    raise InvalidName("subscription", str(name))


def authority_key(object_type: str, profile: str, principal: str, group: str) -> str:
    """The name of the one authority record for these."""
    return _key(object_type, profile, principal, group)


def rule_key(rule: str, profile: str, *, address: str = "", client_user: str = "", tls_peer: str = "") -> str:
    """The name of the one channel rule that matches these; BLOCKUSER has one for a profile."""
    return _key(rule, profile, address, client_user, tls_peer)


def _key(*parts: str) -> str:
    # Escaped, so that no two different rules or records can ever share a name.
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


ClockSteps = tuple[tuple[int, float], ...]
"""Keys of messages, each with the offset of steady time from there on; see `SteadyTime`."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What all definitions share."""

    kind: ClassVar[str] = ""
    """MQSC's word for it."""

    name: str
    description: str = ""


class QueueDefinition(Definition, frozen=True, kw_only=True):
    """What all kinds of queues share."""

    put_enabled: bool = True
    default_persistent: bool = False
    default_priority: int = 0


class StoredQueueDefinition(QueueDefinition, frozen=True, kw_only=True):
    """What queues that hold messages share: local ones, and models of them."""

    get_enabled: bool = True
    depth_max: int = limits.DEPTH_DEFAULT
    body_bytes_max: int = limits.BODY_BYTES_DEFAULT
    delivery: Literal["PRIORITY", "FIFO"] = "PRIORITY"
    usage: Literal["NORMAL", "XMITQ"] = "NORMAL"
    backout_threshold: int = 0
    """How often a message may be backed out before it moves to `backout_queue`; 0 is never."""
    backout_queue: str = ""
    backout_hardened: bool = True
    """Whether a backout count survives the death of the queue manager."""
    trigger_enabled: bool = False
    trigger_type: Literal["NONE", "FIRST", "EVERY", "DEPTH"] = "FIRST"
    trigger_depth: int = 1
    trigger_priority: int = 0
    """Only messages of at least this priority count for triggering."""
    trigger_data: str = ""
    process: str = ""
    initiation_queue: str = ""
    depth_high_percent: int = 80
    depth_low_percent: int = 20
    depth_high_event: bool = False
    depth_low_event: bool = False
    depth_full_event: bool = False
    stream_queue: str = ""
    """A queue that gets a copy of every message that arrives here."""
    stream_required: bool = False
    """Whether a put fails when its copy cannot be put."""
    buffer_bytes: int = limits.QUEUE_BUFFER_BYTES_DEFAULT
    """Memory for this queue's messages; beyond it they go to disk."""


class LocalQueue(StoredQueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QLOCAL"

    dynamic: Literal["", "TEMPORARY", "PERMANENT"] = ""
    """How it came to be, when it was made from a model."""
    owner: str = ""
    """Of a dynamic queue: the user for whom it was made, who may put reports and replies there."""


class ModelQueue(StoredQueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QMODEL"

    dynamic_kind: Literal["TEMPORARY", "PERMANENT"] = "TEMPORARY"


class AliasQueue(QueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QALIAS"

    get_enabled: bool = True
    target: str = ""


class RemoteQueue(QueueDefinition, frozen=True, kw_only=True):
    kind: ClassVar[str] = "QREMOTE"

    remote_queue: str = ""
    """Its name at the other queue manager; empty makes this a queue manager alias."""
    remote_manager: str = ""
    transmission_queue: str = ""
    """Where its messages wait for a channel; empty means a queue named like the manager."""


class Process(Definition, frozen=True, kw_only=True):
    """A program that the trigger monitor starts."""

    kind: ClassVar[str] = "PROCESS"

    application_type: str = "UNIX"
    application_id: str = ""
    """The command line."""
    environment_data: str = ""
    user_data: str = ""


class NameList(Definition, frozen=True, kw_only=True):
    """A list of names; a put to it reaches every queue it names."""

    kind: ClassVar[str] = "NAMELIST"

    names: tuple[str, ...] = ()


Inherited = Literal["ASPARENT", "YES", "NO"]
Reach = Literal["ASPARENT", "ALL", "ALLDUR", "ALLAVAIL"]
Scope = Literal["ASPARENT", "ALL", "QMGR"]


class Topic(Definition, frozen=True, kw_only=True):
    """What holds for a topic and, where they say nothing else, for all topics below it."""

    kind: ClassVar[str] = "TOPIC"

    topic: str = ""
    """Where in the tree it stands; empty is the root, which only SYSTEM.BASE.TOPIC is."""
    publish: Literal["ASPARENT", "ENABLED", "DISABLED"] = "ASPARENT"
    subscribe: Literal["ASPARENT", "ENABLED", "DISABLED"] = "ASPARENT"
    durable: Inherited = "ASPARENT"
    """Whether subscriptions may be durable."""
    default_persistent: Inherited = "ASPARENT"
    default_priority: int = -1
    """-1: as above."""
    persistent_reach: Reach = "ASPARENT"
    """Which subscribers must be able to have a persistent publication, or nobody has it."""
    nonpersistent_reach: Reach = "ASPARENT"
    use_dead_letter_queue: Inherited = "ASPARENT"
    """Whether a publication that a subscriber's queue refuses goes to the dead-letter queue."""
    publication_scope: Scope = "ASPARENT"
    """Whether publications reach other queue managers."""
    subscription_scope: Scope = "ASPARENT"
    """Whether other queue managers are asked for publications."""
    wildcard: Literal["PASSTHRU", "BLOCK"] = "PASSTHRU"
    """BLOCK: subscriptions whose wildcard stands above it get nothing from here."""
    durable_model: str = ""
    """Model of the queues that are made for durable subscriptions; empty is as above."""
    nondurable_model: str = ""


class SubscriptionDefinition(Definition, frozen=True, kw_only=True):
    """Who wants publications on which topics, and on which queue."""

    kind: ClassVar[str] = "SUB"

    topic: str = ""
    """Topics, with wildcards."""
    wildcards: Literal["TOPIC", "CHAR"] = "TOPIC"
    selector: str = ""
    """A condition over properties."""
    content: str = ""
    """A condition over the body, such as `xpath:/order[total > 100]`."""
    destination: str = ""
    """The queue its publications go to."""
    destination_manager: str = ""
    managed: bool = False
    """Whether the queue was made for it and goes with it."""
    durable: bool = True
    """Whether it outlives its connection; others are never stored."""
    shared: bool = False
    """Whether several connections may read it."""
    scope: Literal["ALL", "QMGR"] = "ALL"
    priority: int = -1
    """-1: as published; -2: the queue's default."""
    correlation_id: str = ""
    """Hex digits; what its publications carry instead of the publisher's."""
    user_data: str = ""
    expiry_s: float | None = None
    """For how long the subscription lives from `created`."""
    created: float = 0.0
    clock_offset: float = 0.0
    """Steady time minus wall clock when it was created; `expiry_s` is measured in steady time."""
    user: str = ""
    """Its owner, who alone opens and ends it, beside administrators; none: only they do."""
    any_user: bool = False
    """MQ's VARUSER(ANY): whether other users with SUB on its topic may open it; they do not end it."""
    type: Literal["ADMIN", "API", "PROXY"] = "ADMIN"


class Channel(Definition, frozen=True, kw_only=True):
    """A way in or out: for clients (SVRCONN), to another queue manager (SDR), from another one (RCVR)."""

    kind: ClassVar[str] = "CHANNEL"

    channel_type: Literal["SVRCONN", "SDR", "RCVR"] = "SVRCONN"
    connection_name: str = ""
    """Of a sender: `host(port)`, or several with commas; `unix:PATH` for a queue manager on this machine."""
    transmission_queue: str = ""
    batch_size: int = 50
    """Messages that a sender may send before it asks for confirmation."""
    batch_interval_ms: int = 0
    """How long a sender keeps a batch open when the transmission queue is empty."""
    batch_bytes_max: int = 5000 * 1024
    heartbeat_s: int = 30
    """How often a silent partner says that it is still there; 0 is never."""
    disconnect_s: int = 6000
    """After how long without a message a sender ends; 0 is never."""
    short_retry_s: int = 5
    """The longest pause between the first attempts to reach the other end; pauses double from 0.1 s."""
    short_retry_count: int = 20
    long_retry_s: int = 8
    long_retry_count: int = 999_999_999
    nonpersistent_fast: bool = True
    """Whether nonpersistent messages travel outside of the batch, so that a broken connection may lose them."""
    body_bytes_max: int = limits.BODY_BYTES_MAX
    instances_max: int = 999_999_999
    """Of a client channel: connections at one time."""
    instances_per_address_max: int = 999_999_999
    user: str = ""
    """MQ's MCAUSER: as whom the partner acts here when no password, certificate or rule says more."""
    remote_user: str = ""
    """Of a sender: whom it presents itself as; the password is in the queue manager's credentials file."""
    sequence_wrap: int = 999_999_999
    retry_count: int = 10
    """Of a receiver: how often a put that a full queue refuses is tried again before the dead-letter queue."""
    retry_ms: int = 100
    tls: str = ""
    """Not empty: the connection must be encrypted. The name of MQ's cipher specification is kept as it was given."""
    tls_client_required: bool = True
    """Whether an encrypted partner must show a certificate that our authority has signed."""
    tls_peer: str = ""
    """What the partner's certificate must say, such as `CN=app*,O=Port`."""


class Listener(Definition, frozen=True, kw_only=True):
    """Where connections are accepted."""

    kind: ClassVar[str] = "LISTENER"

    protocol: Literal["NATIVE", "AMQP"] = "NATIVE"
    address: str = "127.0.0.1"
    port: int = 1414
    tls: bool = False
    """Whether every connection is encrypted from its first byte, with the queue manager's certificate."""
    control: Literal["QMGR", "MANUAL"] = "QMGR"
    """Whether it starts with the queue manager."""
    channel: str = ""
    """The client channel for protocols that do not name one, such as AMQP."""
    backlog: int = 1024
    connections_max: int = 100_000
    connections_per_address_max: int = 100_000
    handshake_s: int = 10
    """How long a new connection may take to say who it is."""


class AuthorityRecord(Definition, frozen=True, kw_only=True):
    """What a user or a group may do with the objects a profile names; its name is `authority_key` of these."""

    kind: ClassVar[str] = "AUTHREC"

    profile: str = ""
    """A name, with `*` for a part and `**` for any parts."""
    object_type: Literal["QMGR", "QUEUE", "CHANNEL", "TOPIC", "CLAIM"] = "QUEUE"
    principal: str = ""
    group: str = ""
    authorities: tuple[str, ...] = ()
    """MQ's words: CONNECT, PUT, GET, BROWSE, INQ, SET, DSP, CRT, CHG, DLT, CLR, CTRL, PUB, SUB."""


class ChannelRule(Definition, frozen=True, kw_only=True):
    """Who may use which channels from where, and as whom; its name is `rule_key` of what it matches."""

    kind: ClassVar[str] = "CHLAUTH"

    profile: str = ""
    """Channel names, with `*`."""
    rule: Literal["ADDRESSMAP", "USERMAP", "SSLPEERMAP", "BLOCKUSER", "BLOCKADDR"] = "ADDRESSMAP"
    address: str = ""
    """`192.168.*`, `10.0.0.1-20`, a CIDR block, or `*`."""
    client_user: str = ""
    tls_peer: str = ""
    users: tuple[str, ...] = ()
    """For BLOCKUSER; `*MQADMIN` means every administrator."""
    user_source: Literal["CHANNEL", "MAP", "NOACCESS"] = "MAP"
    user: str = ""
    """As whom the partner acts, with MAP."""


class ClaimRecord(Definition, frozen=True, kw_only=True):
    """What is remembered for good about a name that workers claim, or that begins such names.

    The queue manager alone writes these: no command defines one, and no put reaches them.
    """

    kind: ClassVar[str] = "CLAIM"

    epoch: int = 0
    """The highest that was ever claimed or retired; 0: none."""
    given: int = 0
    """The highest number that was given out for all names that begin so; 0: none."""
    user: str = ""
    """Who has made it known."""


class ManagerAttributes(Definition, frozen=True, kw_only=True):
    """The queue manager's own attributes."""

    kind: ClassVar[str] = "QMGR"

    dead_letter_queue: str = "SYSTEM.DEAD.LETTER.QUEUE"
    default_transmission_queue: str = ""
    body_bytes_max: int = limits.BODY_BYTES_MAX
    uncommitted_max: int = limits.UNCOMMITTED_MESSAGES_DEFAULT
    trigger_interval_ms: int = 999_999_999
    """After how long a FIRST trigger is repeated for a queue that still holds messages."""
    performance_events: bool = True
    tls_folder: str = ""
    """MQ's SSLKEYR: where cert.pem, key.pem and, for client certificates, ca.pem are."""
    password_check: Literal["NONE", "OPTIONAL", "REQUIRED"] = "OPTIONAL"  # noqa: S105
    """MQ's CHCKCLNT: whether a client has to show a user's password; a wrong one is always refused."""
    channel_rules_enabled: bool = True
    """MQ's CHLAUTH."""
    parent: str = ""
    """The queue manager above this one, with which it exchanges publications."""
    user_uncommitted_bytes_max: int = limits.USER_UNCOMMITTED_BYTES_DEFAULT
    """What one user may hold at a time; `queues.quotas` counts these."""
    user_prepared_max: int = limits.USER_PREPARED_DEFAULT
    prepared_max: int = limits.PREPARED_DEFAULT
    """Of all users together."""
    user_permanent_queues_max: int = limits.USER_PERMANENT_QUEUES_DEFAULT
    user_temporary_queues_max: int = limits.USER_TEMPORARY_QUEUES_DEFAULT
    user_durable_subscriptions_max: int = limits.USER_DURABLE_SUBSCRIPTIONS_DEFAULT
    user_claims_max: int = limits.USER_CLAIMS_DEFAULT
    claims_max: int = limits.CLAIMS_DEFAULT
    user_waiting_max: int = limits.USER_WAITING_DEFAULT
    user_connections_max: int = limits.USER_CONNECTIONS_DEFAULT
    unit_age_s_max: int = limits.UNIT_AGE_S_DEFAULT
    """After how many seconds a connection's open unit of work is backed out; 0 is never."""
    clock_steps: ClockSteps = ()
    """When the clock was set; `SteadyTime` keeps it, and it is here to be stored."""


def require_own_name(definition: Definition) -> None:
    """Refuse a definition whose name is none, or is not the key that its own attributes make.

    Raises:
        InvalidName
    """
    if isinstance(definition, AuthorityRecord):
        key = authority_key(definition.object_type, definition.profile, definition.principal, definition.group)
    elif isinstance(definition, ChannelRule):
        key = rule_key(
            definition.rule,
            definition.profile,
            address=definition.address,
            client_user=definition.client_user,
            tls_peer=definition.tls_peer,
        )
    elif isinstance(definition, SubscriptionDefinition):
        key = require_subscription_name(definition.name)
    else:
        key = require_name(definition.kind, definition.name)
    if key != definition.name:
        raise InvalidName(definition.kind, definition.name)


def is_fleeting(definition: Definition) -> bool:
    """Whether it dies with a connection, so that the log need not know it."""
    if isinstance(definition, LocalQueue):
        return definition.dynamic == "TEMPORARY"
    return isinstance(definition, SubscriptionDefinition) and not definition.durable


QUEUE_KINDS: tuple[type[QueueDefinition], ...] = (LocalQueue, ModelQueue, AliasQueue, RemoteQueue)
_OTHER_KINDS: tuple[type[Definition], ...] = (
    Process,
    NameList,
    ManagerAttributes,
    Channel,
    Listener,
    AuthorityRecord,
    ChannelRule,
    Topic,
    SubscriptionDefinition,
)
KINDS: dict[str, type[Definition]] = {kind.kind: kind for kind in _OTHER_KINDS}
KINDS.update((kind.kind, kind) for kind in QUEUE_KINDS)
STORED_KINDS: dict[str, type[Definition]] = {**KINDS, ClaimRecord.kind: ClaimRecord}
"""What the log has, with what no command defines."""

DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"
INITIATION_QUEUE = "SYSTEM.DEFAULT.INITIATION.QUEUE"
MODEL_QUEUE = "SYSTEM.DEFAULT.MODEL.QUEUE"
PERFORMANCE_EVENT_QUEUE = "SYSTEM.ADMIN.PERFM.EVENT"
SYNCHRONIZATION_QUEUE = "SYSTEM.CHANNEL.SYNCQ"
CHANNEL_INITIATION_QUEUE = "SYSTEM.CHANNEL.INITQ"
CLAIMS_QUEUE = "SYSTEM.CLAIMS.QUEUE"
"""Where earlier releases kept claims; `Claims.move_from_queue` reads it once and deletes it."""
CLIENT_CHANNEL = "SYSTEM.DEF.SVRCONN"
BASE_TOPIC = "SYSTEM.BASE.TOPIC"
RETAINED_QUEUE = "SYSTEM.RETAINED.PUB.QUEUE"
DURABLE_MODEL = "SYSTEM.DURABLE.MODEL.QUEUE"
NONDURABLE_MODEL = "SYSTEM.NDURABLE.MODEL.QUEUE"
INTERMANAGER_PUBLICATIONS = "SYSTEM.INTER.QMGR.PUBS"
INTERMANAGER_CONTROL = "SYSTEM.INTER.QMGR.CONTROL"
CHILDREN = "SYSTEM.PUBSUB.CHILDREN"
"""The name list of the queue managers that have us as their parent."""


ROOT_TOPIC = Topic(
    name=BASE_TOPIC,
    description="The root of all topics",
    publish="ENABLED",
    subscribe="ENABLED",
    durable="YES",
    default_persistent="NO",
    default_priority=0,
    persistent_reach="ALLDUR",
    nonpersistent_reach="ALLAVAIL",
    use_dead_letter_queue="YES",
    publication_scope="ALL",
    subscription_scope="ALL",
    durable_model=DURABLE_MODEL,
    nondurable_model=NONDURABLE_MODEL,
)
"""What holds where no other topic object says anything."""


def founding_objects() -> tuple[Definition, ...]:
    """What a queue manager has before its first start.

    For ever the same: a linear log is replayed upon exactly these, so one
    more would take a number that the log gives to another queue.
    """
    return (
        LocalQueue(
            name=DEAD_LETTER_QUEUE,
            description="Messages that could not be delivered",
            depth_max=limits.DEPTH_MAX,
            body_bytes_max=limits.BODY_BYTES_MAX,
        ),
        LocalQueue(name=INITIATION_QUEUE, description="Trigger messages for the trigger monitor"),
        LocalQueue(name=PERFORMANCE_EVENT_QUEUE, description="Queue depth events"),
        ModelQueue(name=MODEL_QUEUE, description="Temporary dynamic queues, for instance for replies"),
    )


def topic_objects() -> tuple[Definition, ...]:
    """What publish/subscribe needs."""
    return (
        ROOT_TOPIC,
        # Never on disk alone: the newest of each topic is looked up in memory.
        LocalQueue(
            name=RETAINED_QUEUE,
            description="Publications that are kept for subscribers to come",
            depth_max=limits.DEPTH_MAX,
            body_bytes_max=limits.BODY_BYTES_MAX,
            delivery="FIFO",
            buffer_bytes=2**62,
        ),
        LocalQueue(
            name=INTERMANAGER_PUBLICATIONS,
            description="Publications from other queue managers",
            depth_max=limits.DEPTH_MAX,
            body_bytes_max=limits.BODY_BYTES_MAX,
        ),
        LocalQueue(
            name=INTERMANAGER_CONTROL,
            description="Which publications other queue managers want",
            body_bytes_max=limits.BODY_BYTES_MAX,
        ),
        ModelQueue(
            name=DURABLE_MODEL,
            description="Queues of durable subscriptions",
            dynamic_kind="PERMANENT",
            depth_max=limits.DEPTH_MAX,
            body_bytes_max=limits.BODY_BYTES_MAX,
        ),
        ModelQueue(
            name=NONDURABLE_MODEL,
            description="Queues of subscriptions that end with their connection",
            depth_max=limits.DEPTH_MAX,
            body_bytes_max=limits.BODY_BYTES_MAX,
        ),
    )


def system_objects() -> tuple[Definition, ...]:
    """What every queue manager has once it has been started."""
    return (
        *founding_objects(),
        LocalQueue(name=CHANNEL_INITIATION_QUEUE, description="Trigger messages that start channels"),
        Channel(name=CLIENT_CHANNEL, description="What new client channels are like"),
        ChannelRule(
            name=rule_key("BLOCKUSER", "*"),
            description="No administrators over the network",
            profile="*",
            rule="BLOCKUSER",
            users=("*MQADMIN",),
        ),
        ChannelRule(
            name=rule_key("ADDRESSMAP", "SYSTEM.*", address="*"),
            description="System channels are for looking at, not for use",
            profile="SYSTEM.*",
            rule="ADDRESSMAP",
            address="*",
            user_source="NOACCESS",
        ),
        *topic_objects(),
        # Last, because where it is the others have been: see Administration.define_missing.
        LocalQueue(
            name=SYNCHRONIZATION_QUEUE,
            description="How far channels to other queue managers have come",
            depth_max=limits.DEPTH_MAX,
            default_persistent=True,
        ),
    )
