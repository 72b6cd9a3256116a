# SPDX-License-Identifier: Apache-2.0
"""What frames say. The order of fields is the order on the wire, so new ones go to the end with a default.

Asking verbs are below 64, answers and what a server says of its own accord
from 64 on. docs/WIRE.md tells them with all that they promise.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from entrepot.message import Message, PutInUnit

MAGIC = "ENTREPOT"


class Verb(enum.IntEnum):
    HELLO = 1
    PUT = 2
    GET = 3
    REQUEST = 4
    GET_MANY = 5
    GET_GROUP = 6
    BROWSE = 7
    COMMIT = 8
    BACK_OUT = 9
    PREPARE = 10
    RESOLVE = 11
    IN_DOUBT = 12
    CONSUME = 13
    CREDIT = 14
    STOP_CONSUMING = 15
    ACKNOWLEDGE = 16
    CANCEL = 17
    SYNCHRONIZE = 18
    MQSC = 19
    DYNAMIC = 20
    HEARTBEAT = 21
    GOODBYE = 22
    MANAGE = 23
    SUBSCRIBE = 24
    UNSUBSCRIBE = 25
    BEGIN_GLOBAL = 26
    DECIDE = 27
    OUTCOMES = 28
    FORGET = 29
    CLAIM = 30
    RETIRE = 31
    # Between queue managers:
    CHANNEL_HELLO = 32
    CHANNEL_MESSAGE = 33
    CHANNEL_END_OF_BATCH = 34
    CHANNEL_PING = 35
    # A client's again:
    INSTRUCT = 36
    CLAIMS = 37
    NEXT_EPOCH = 38
    PUT_MANY = 39
    RETURN = 40
    # Answers:
    WELCOME = 64
    DONE = 65
    MESSAGE = 66
    MESSAGES = 67
    FAILED = 68
    DELIVERY = 69
    ANSWERS = 70
    ALIVE = 71
    CLOSING = 72
    CONSUMER_FAILED = 73
    DELIVERIES = 74
    CHANNEL_WELCOME = 96
    CHANNEL_CONFIRM = 97


class Payload(msgspec.Struct, array_like=True, gc=False):
    """What all payloads share: they are arrays, and cheap."""


class Empty(Payload, gc=False):
    pass


class Hello(Payload, gc=False):
    """The first frame of a client."""

    magic: str
    version: int
    channel: str = ""
    user: str = ""
    password: str = ""
    application: str = ""
    manager: str = ""
    """The queue manager it wants; empty is whichever is there."""
    before: bytes = b""
    """The token of the session that the client had on a connection that broke: it ends before this one begins."""


class Welcome(Payload, gc=False):
    version: int
    manager: str
    connection: int
    heartbeat_s: float
    """The asker says something at least this often; 0 is never."""
    body_bytes_max: int
    user: str
    """As whom the server knows the client."""
    incarnation: int
    """How often the queue manager has been started: after a reconnect the client can tell a restart."""
    message_id_head: bytes
    """The client makes message ids of its own by adding a count of 4 bytes to it."""
    token: bytes = b""
    """Names this session when its client connects again, and is known to no other."""


class Wanted(Payload, gc=False):
    """Which message a reader wants."""

    message_id: bytes | None = None
    correlation_id: bytes | None = None
    group_id: bytes | None = None
    selector: str | None = None
    whole_group: bool = False


class Put(Payload, gc=False):
    queue: str | list[str]
    unit: int
    """0: none. A client numbers its units itself and never uses a number again."""
    persistent: bool | None
    priority: int | None
    wait_s: float
    """How long to wait for room on a full queue."""
    message: Message
    """Last, so that a long body can be sent without being copied."""


class PutMany(Payload, gc=False):
    """Puts of one unit of work, in one frame; its answer tells of all that were refused so far, as its end does."""

    unit: int
    puts: list[PutInUnit]


class Get(Payload, gc=False):
    queue: str
    unit: int = 0
    wait_s: float = 0.0
    wanted: Wanted | None = None


class Request(Payload, gc=False):
    """Put a request and get its reply, by the request's message id."""

    queue: str
    reply_queue: str
    timeout_s: float
    persistent: bool | None
    priority: int | None
    message: Message


class GetMany(Payload, gc=False):
    queue: str
    unit: int
    limit: int
    wait_s: float = 0.0
    wanted: Wanted | None = None


class GetGroup(Payload, gc=False):
    queue: str
    unit: int
    wait_s: float = 0.0
    selector: str | None = None


class Browse(Payload, gc=False):
    queue: str
    place: tuple[int, int] | None
    limit: int
    wanted: Wanted | None = None


class OfUnit(Payload, gc=False):
    """BEGIN_GLOBAL."""

    unit: int


class BackOut(Payload, gc=False):
    unit: int
    counted: bool = True
    """Whether what returns counts as tried."""
    used: list[tuple[int, int]] = []
    """What it has used of consumers, where that shares its fate: uncounted, delayed or rejected."""
    delay_s: float = 0.0
    """How long what it has got stays away from readers."""
    rejected: str | None = None
    """Why what it has got moves to the backout queue or the dead-letter queue instead."""


class Commit(Payload, gc=False):
    unit: int
    used: list[tuple[int, int]] = []
    """Consumers, and up to which of its deliveries the unit has used each: these leave their queues with it."""
    counted: bool = True
    """Whether what returns, if the unit is backed out instead, counts as tried."""


class Prepare(Payload, gc=False):
    unit: int
    transaction_id: bytes
    used: list[tuple[int, int]] = []
    branches: list[tuple[str, str, int]] = []
    """Of a global unit, whose transaction id it has to be: resource, branch id, the database's own number."""
    counted: bool = True


class Resolve(Payload, gc=False):
    transaction_id: bytes
    commit: bool


class Decide(Payload, gc=False):
    """Commit a global unit whose branches are prepared, or end one that was prepared itself."""

    unit: int
    """0: it was prepared, under the transaction id."""
    transaction_id: bytes
    branches: list[tuple[str, str, int]]
    commit: bool = True
    used: list[tuple[int, int]] = []
    counted: bool = True


class Outcomes(Payload, gc=False):
    """What became of global units, and which branches at a resource do not know it yet."""

    transaction_ids: list[bytes]
    resource: str = ""


class Forget(Payload, gc=False):
    """Branches of a decided unit have ended."""

    transaction_id: bytes
    branches: list[str]
    outcome: str = ""
    """How they ended, unless they are committed as they should be."""


class Consume(Payload, gc=False):
    """Let messages come of themselves, up to the credit given."""

    queue: str
    consumer: int
    credit: int
    wanted: Wanted | None = None
    held: bool = False
    """For units of work: what is not used returns whatever happens, and counts as tried only if it was seen."""
    together: bool = False
    """Whether deliveries may come as DELIVERIES, too."""


class Credit(Payload, gc=False):
    """All deliveries up to a number were used; so many more may come."""

    consumer: int
    used: int
    more: int
    seen: int = 0
    """Of a held consumer: all deliveries up to this one have reached the application, and count as tried."""


class OfConsumer(Payload, gc=False):
    """STOP_CONSUMING: what was used up to a delivery stays, in a unit; the rest returns."""

    consumer: int
    used: int = 0
    unit: int = 0
    tried: int = 0
    """Outside of units: deliveries up to this one count as tried when they return."""


class Return(Payload, gc=False):
    """All deliveries before one were used; that one returns as tried, or is rejected. So many more may come."""

    consumer: int
    delivery: int
    more: int
    delay_s: float = 0.0
    """How long nobody gets it."""
    rejected: str | None = None
    """Why it moves to the backout queue or the dead-letter queue instead."""


class OfNumber(Payload, gc=False):
    """CANCEL and ACKNOWLEDGE: the number of the frame that asked for a message."""

    asked: int


class Mqsc(Payload, gc=False):
    script: str
    source: str = "-"


class Dynamic(Payload, gc=False):
    model: str
    pattern: str


class Subscribe(Payload, gc=False):
    """Open a subscription, and make it if there is none of its name; the answer has its name and its queue."""

    name: str
    """Empty: the server makes one up."""
    topic: str
    """Empty: one that exists."""
    queue: str = ""
    """Where publications go; empty lets the server make a queue."""
    durable: bool = False
    shared: bool = False
    selector: str = ""
    content: str = ""
    wildcards: str = "TOPIC"
    new_only: bool = False
    """Leave out what was retained before."""


class Unsubscribe(Payload, gc=False):
    """Close a subscription; `end`: a durable one ends, too."""

    name: str
    end: bool


class Manage(Payload, gc=False):
    """What the command line asks of a running queue manager: status, checkpoint, backup."""

    what: str
    arguments: dict[str, Any] = {}


class Claim(Payload, gc=False):
    """Take the right to act under a name, or renew it; the answer is the order that was given to it."""

    name: str
    epoch: int
    token: bytes = b""
    """The same whenever this client connects again, and nobody else's."""
    status: bytes = b""
    """A mapping as JSON; empty: as before."""


class Retire(Payload, gc=False):
    """Nobody below an epoch may act under a name any more."""

    name: str
    epoch: int


class Instruct(Payload, gc=False):
    """An order to all who act under names that begin so."""

    prefix: str
    order: str


class OfPrefix(Payload, gc=False):
    """CLAIMS and NEXT_EPOCH: names that begin so."""

    prefix: str


class ChannelHello(Payload, gc=False):
    """The first frame of a sender channel."""

    magic: str
    version: int
    channel: str
    manager: str
    """Who sends."""
    target: str
    """Whom it wants to reach."""
    user: str
    password: str
    sequence: int
    """Of the last message it knows to be confirmed."""
    batch: bytes
    """Logical-unit id of the last batch it knows to be confirmed; empty before the first."""
    in_doubt_sequence: int
    in_doubt_batch: bytes
    """Of the batch whose confirmation never came, if there is one."""
    batch_size: int
    heartbeat_s: float
    nonpersistent_fast: bool
    sequence_wrap: int


class ChannelWelcome(Payload, gc=False):
    """The receiver's last committed batch, so that the sender can tell what became of one in doubt."""

    version: int
    manager: str
    sequence: int
    batch: bytes
    body_bytes_max: int
    heartbeat_s: float
    """The sender says something at least this often; 0 is never."""
    batch_size: int
    """Messages that a batch may have."""
    nonpersistent_fast: bool
    """Whether nonpersistent messages may come outside of batches."""


class ChannelMessage(Payload, gc=False):
    sequence: int
    """0: it travels outside of the batch."""
    message: Message


class ChannelEndOfBatch(Payload, gc=False):
    batch: bytes
    sequence: int


class ChannelConfirm(Payload, gc=False):
    batch: bytes
    sequence: int


class Done(Payload, gc=False):
    value: Any = None


class MessageAnswer(Payload, gc=False):
    """`leased`: the message comes back to its queue unless it is acknowledged."""

    leased: bool
    message: Message | None


class MessagesAnswer(Payload, gc=False):
    messages: list[Message]
    place: tuple[int, int] | None = None


class Failed(Payload, gc=False):
    error: Any
    unit_active: bool = False
    """The unit of work that was to end has not: it can still be committed or backed out."""


class Delivery(Payload, gc=False):
    consumer: int
    delivery: int
    """Counts from 1 for each consumer."""
    message: Message


class Deliveries(Payload, gc=False):
    """Several at once, one behind the other."""

    consumer: int
    delivery: int
    """The number of the first."""
    messages: list[Message]


class ConsumerFailed(Payload, gc=False):
    """No more comes from a consumer's queue; it is closed."""

    consumer: int
    error: Any


class Answers(Payload, gc=False):
    answers: list[Any]


class Closing(Payload, gc=False):
    """The server is about to close: why, and whether it will come back."""

    error: Any


PAYLOADS: dict[Verb, type[Payload]] = {
    Verb.HELLO: Hello,
    Verb.PUT: Put,
    Verb.PUT_MANY: PutMany,
    Verb.GET: Get,
    Verb.REQUEST: Request,
    Verb.GET_MANY: GetMany,
    Verb.GET_GROUP: GetGroup,
    Verb.BROWSE: Browse,
    Verb.COMMIT: Commit,
    Verb.BACK_OUT: BackOut,
    Verb.PREPARE: Prepare,
    Verb.RESOLVE: Resolve,
    Verb.IN_DOUBT: Empty,
    Verb.CONSUME: Consume,
    Verb.CREDIT: Credit,
    Verb.STOP_CONSUMING: OfConsumer,
    Verb.RETURN: Return,
    Verb.ACKNOWLEDGE: OfNumber,
    Verb.CANCEL: OfNumber,
    Verb.SYNCHRONIZE: Empty,
    Verb.MQSC: Mqsc,
    Verb.DYNAMIC: Dynamic,
    Verb.HEARTBEAT: Empty,
    Verb.GOODBYE: Empty,
    Verb.MANAGE: Manage,
    Verb.SUBSCRIBE: Subscribe,
    Verb.UNSUBSCRIBE: Unsubscribe,
    Verb.BEGIN_GLOBAL: OfUnit,
    Verb.DECIDE: Decide,
    Verb.OUTCOMES: Outcomes,
    Verb.FORGET: Forget,
    Verb.CLAIM: Claim,
    Verb.RETIRE: Retire,
    Verb.INSTRUCT: Instruct,
    Verb.CLAIMS: OfPrefix,
    Verb.NEXT_EPOCH: OfPrefix,
    Verb.CHANNEL_HELLO: ChannelHello,
    Verb.CHANNEL_MESSAGE: ChannelMessage,
    Verb.CHANNEL_END_OF_BATCH: ChannelEndOfBatch,
    Verb.CHANNEL_PING: Empty,
    Verb.WELCOME: Welcome,
    Verb.DONE: Done,
    Verb.MESSAGE: MessageAnswer,
    Verb.MESSAGES: MessagesAnswer,
    Verb.FAILED: Failed,
    Verb.DELIVERY: Delivery,
    Verb.DELIVERIES: Deliveries,
    Verb.ANSWERS: Answers,
    Verb.ALIVE: Empty,
    Verb.CLOSING: Closing,
    Verb.CONSUMER_FAILED: ConsumerFailed,
    Verb.CHANNEL_WELCOME: ChannelWelcome,
    Verb.CHANNEL_CONFIRM: ChannelConfirm,
}
