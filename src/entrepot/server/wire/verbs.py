# SPDX-License-Identifier: Apache-2.0
"""What frames say. The order of fields is the order on the wire, so new ones go to the end with a default.

Asking verbs are below 64, answers and what a server says of its own accord
from 64 on. docs/WIRE.md tells them with all that they promise.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

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
    joins_puts: bool = False
    """Whether PUT_MANY may have puts outside of any unit of work."""


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
    """0: none. Then each is as in a frame of its own, and SYNCHRONIZE tells of the first that was refused."""
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


class BrowsePayload(Payload, gc=False):
    queue: str
    place: tuple[int, int] | None
    limit: int
    wanted: Wanted | None = None


class UnitPayload(Payload, gc=False):
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


class ConsumerPayload(Payload, gc=False):
    """STOP_CONSUMING: what was used up to a delivery stays, in a unit; the rest returns."""

    consumer: int
    used: int = 0
    unit: int = 0
    tried: int = 0
    """Outside of units: deliveries up to this one count as tried when they return."""


class ReturnPayload(Payload, gc=False):
    """All deliveries before one were used; that one returns as tried, or is rejected. So many more may come."""

    consumer: int
    delivery: int
    more: int
    delay_s: float = 0.0
    """How long nobody gets it."""
    rejected: str | None = None
    """Why it moves to the backout queue or the dead-letter queue instead."""


class NumberPayload(Payload, gc=False):
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


class ClaimPayload(Payload, gc=False):
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


class PrefixPayload(Payload, gc=False):
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


class DonePayload(Payload, gc=False):
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


class DeliveryPayload(Payload, gc=False):
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


class Repeatable(enum.Enum):
    """Whether a verb whose answer was lost may be asked again on the next connection."""

    NEVER = "no"
    """It might happen twice, or its outcome is asked for in another way."""
    ALWAYS = "yes"
    """It only reads, or the server can tell that the same client asks the same."""
    IF_IT_READS = "if it only reads"
    """Its arguments say whether it changes anything."""


class VerbDefinition(NamedTuple):
    """All there is to know of a verb: the decoders, clients, servers and docs/WIRE.md go by it."""

    request: type[Payload]
    answer: str = ""
    """What comes back, and when; docs/WIRE.md has both columns from here."""
    when: str = ""
    authority: str = ""
    """What the partner has to be allowed."""
    again: Repeatable = Repeatable.NEVER
    takes: bool = False
    """Whether its answer may hold a message that is nowhere else any more, so that it must not get lost."""
    for_fenced: bool = False
    """Whether it is answered though another connection acts in the partner's place."""
    in_conversation: bool = True
    """Whether a client asks it once it is admitted; if not, it begins a connection or is a channel's."""

    @property
    def has_message(self) -> bool:
        """Whether the last field is a message, whose body may be long."""
        return self.request.__struct_fields__[-1:] == ("message",)


_AT_ONCE, _FORCED = "at once", "the log is forced"
_PUT = "PUT on the queue, PUB on the topic"

ASKED: dict[Verb, VerbDefinition] = {
    Verb.HELLO: VerbDefinition(
        Hello,
        "WELCOME",
        "the partner is known and admitted",
        "CONNECT on the queue manager",
        in_conversation=False,
    ),
    Verb.PUT: VerbDefinition(
        Put,
        "DONE with the message id",
        "persistent: the log is forced; nonpersistent: it is on its queue or with a reader; in a unit: at once",
        _PUT,
    ),
    Verb.PUT_MANY: VerbDefinition(PutMany, "DONE", "nothing of the unit was refused so far", _PUT),
    Verb.GET: VerbDefinition(
        Get, "MESSAGE, nil when none came in time", "a message is there, or time is up", "GET on the queue", takes=True
    ),
    Verb.REQUEST: VerbDefinition(
        Request,
        "MESSAGE, nil when none came in time",
        "a message is there, or time is up",
        "PUT on the queue, GET on the reply queue",
        takes=True,
    ),
    Verb.GET_MANY: VerbDefinition(
        GetMany, "MESSAGES, empty when none came", "the first is there, or time is up", "GET on the queue", takes=True
    ),
    Verb.GET_GROUP: VerbDefinition(
        GetGroup, "MESSAGES, empty when none came", "the group is whole, or time is up", "GET on the queue", takes=True
    ),
    Verb.BROWSE: VerbDefinition(
        BrowsePayload, "MESSAGES with the `place` to go on from", _AT_ONCE, "BROWSE on the queue", Repeatable.ALWAYS
    ),
    Verb.COMMIT: VerbDefinition(Commit, "DONE", _FORCED),
    Verb.BACK_OUT: VerbDefinition(BackOut, "DONE", _AT_ONCE),
    Verb.PREPARE: VerbDefinition(Prepare, "DONE", _FORCED, "PREPARE on the queue manager"),
    Verb.RESOLVE: VerbDefinition(Resolve, "DONE", _FORCED, "to have prepared it, or SET on the queue manager"),
    Verb.IN_DOUBT: VerbDefinition(
        Empty, "DONE with transaction ids", _AT_ONCE, "for units of others, INQ on the queue manager", Repeatable.ALWAYS
    ),
    Verb.CONSUME: VerbDefinition(
        Consume, "DONE, if `held` with how many it may hold", "at once, before the first delivery", "GET on the queue"
    ),
    Verb.CREDIT: VerbDefinition(
        Credit, "DONE", "the messages have left their queue for good, on disk where they have to be"
    ),
    Verb.STOP_CONSUMING: VerbDefinition(ConsumerPayload, "DONE", _AT_ONCE),
    Verb.RETURN: VerbDefinition(
        ReturnPayload, "DONE", "it is back on its queue; rejected: it is on the other queue, on disk where it has to be"
    ),
    Verb.ACKNOWLEDGE: VerbDefinition(
        NumberPayload, "DONE", "the message has left its queue for good, on disk where it has to be"
    ),
    Verb.CANCEL: VerbDefinition(NumberPayload, "DONE", _AT_ONCE),
    Verb.SYNCHRONIZE: VerbDefinition(Empty, "DONE", "every PUT before it is where it belongs"),
    Verb.MQSC: VerbDefinition(
        Mqsc, "ANSWERS", "all commands have been carried out", "what each command takes", Repeatable.IF_IT_READS
    ),
    Verb.DYNAMIC: VerbDefinition(Dynamic, "DONE with the queue's name", "it is defined", "GET on the model queue"),
    Verb.HEARTBEAT: VerbDefinition(Empty, "ALIVE", "at once, also with number 0", for_fenced=True),
    Verb.GOODBYE: VerbDefinition(Empty, "DONE", "the connection ends then", for_fenced=True),
    Verb.MANAGE: VerbDefinition(
        Manage, "DONE with what was asked for", "it is done", "to be an administrator", Repeatable.IF_IT_READS
    ),
    Verb.SUBSCRIBE: VerbDefinition(
        Subscribe,
        "DONE with the subscription's name and its queue",
        "publications reach it; a durable one: the log is forced",
        "SUB on the topic, PUT on a queue that was there",
        # What was open on a connection has gone with it.
        Repeatable.ALWAYS,
    ),
    Verb.UNSUBSCRIBE: VerbDefinition(
        Unsubscribe, "DONE", "closed: at once; ended: the log is forced", "to own the subscription"
    ),
    Verb.BEGIN_GLOBAL: VerbDefinition(
        UnitPayload, "DONE with the transaction id", _AT_ONCE, "PREPARE on the queue manager"
    ),
    Verb.DECIDE: VerbDefinition(Decide, "DONE", _FORCED, "to have begun it, or SET on the queue manager"),
    Verb.OUTCOMES: VerbDefinition(
        Outcomes,
        "DONE with an array of four: how our transaction ids begin, outcomes, unfinished branches, undecided units",
        _AT_ONCE,
        again=Repeatable.ALWAYS,
    ),
    Verb.FORGET: VerbDefinition(
        Forget,
        "DONE",
        "at once; with an `outcome`, the log is forced",
        "to have begun it, or SET on the queue manager",
    ),
    Verb.CLAIM: VerbDefinition(
        ClaimPayload,
        'DONE with the order that was given to it, or ""',
        "at once; a higher epoch than ever: the log is forced",
        "SET on the claim",
        # The token tells the server that the same client asks again.
        Repeatable.ALWAYS,
    ),
    Verb.RETIRE: VerbDefinition(Retire, "DONE", _FORCED, "SET on the claim", Repeatable.ALWAYS),
    Verb.INSTRUCT: VerbDefinition(
        Instruct, "DONE with how many were reached", _AT_ONCE, "SET on the claims", Repeatable.ALWAYS
    ),
    Verb.CLAIMS: VerbDefinition(
        PrefixPayload,
        "DONE with an array for each: name, epoch, connected, user, application, since, renewed_at, status, order",
        _AT_ONCE,
        "SET on the claims",
        Repeatable.ALWAYS,
    ),
    # An epoch that is lost is no one's.
    Verb.NEXT_EPOCH: VerbDefinition(
        PrefixPayload, "DONE with a number", _FORCED, "SET on the claims", Repeatable.ALWAYS
    ),
    Verb.CHANNEL_HELLO: VerbDefinition(ChannelHello, in_conversation=False),
    Verb.CHANNEL_MESSAGE: VerbDefinition(ChannelMessage, in_conversation=False),
    Verb.CHANNEL_END_OF_BATCH: VerbDefinition(ChannelEndOfBatch, in_conversation=False),
    Verb.CHANNEL_PING: VerbDefinition(Empty, in_conversation=False),
}
"""What a partner may ask. docs/decisions/0034-verbs-in-one-table.md says how one is added."""

ANSWERED: dict[Verb, type[Payload]] = {
    Verb.WELCOME: Welcome,
    Verb.DONE: DonePayload,
    Verb.MESSAGE: MessageAnswer,
    Verb.MESSAGES: MessagesAnswer,
    Verb.FAILED: Failed,
    Verb.DELIVERY: DeliveryPayload,
    Verb.DELIVERIES: Deliveries,
    Verb.ANSWERS: Answers,
    Verb.ALIVE: Empty,
    Verb.CLOSING: Closing,
    Verb.CONSUMER_FAILED: ConsumerFailed,
    Verb.CHANNEL_WELCOME: ChannelWelcome,
    Verb.CHANNEL_CONFIRM: ChannelConfirm,
}
"""What a server says, asked or not."""

PAYLOADS: dict[Verb, type[Payload]] = {verb: definition.request for verb, definition in ASKED.items()} | ANSWERED
