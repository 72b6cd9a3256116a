# SPDX-License-Identifier: Apache-2.0
"""The options of put, get and subscribe, in one place for blocking and asyncio connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypedDict

from msgspec.structs import replace

from entrepot import checks
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import SubscriptionDefinition, require_subscription_name
from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.topics import compile_filter, parse_pattern, require_topic
from entrepot.errors import InvalidArgument
from entrepot.limits import PRIORITY_MAX
from entrepot.message import Message, MessageType, PropertyValue, PutInUnit
from entrepot.selectors import compile_selector

_INT32 = 2**31


class PutOptions(TypedDict, total=False):
    """What may be said about a message that is put."""

    persistent: bool | None
    """Whether it survives the queue manager; the queue's default when left out."""
    priority: int | None
    """0 to 9; the queue's default when left out."""
    expiry_s: float | None
    """How long it is of use; for ever when left out."""
    delay_s: float
    """How long nobody may get it."""
    message_id: bytes
    """A unique one is made when left out."""
    correlation_id: bytes
    group_id: bytes
    sequence: int
    """Its place in the group, from 1."""
    last_in_group: bool
    type: MessageType
    report: int
    """Which reports the sender wants: a combination of `Report`."""
    feedback: int
    reply_to: str
    reply_to_manager: str
    format: str
    ccsid: int
    encoding: int
    properties: Mapping[str, PropertyValue] | None
    """What selectors can ask for."""
    wait_s: float
    """How long to wait for room on a full queue; refused at once when left out."""


class GetOptions(TypedDict, total=False):
    """Which message is wanted; all that is said must hold."""

    message_id: bytes | None
    correlation_id: bytes | None
    group_id: bytes | None
    selector: str | None
    """A condition over properties, such as `region = 'EU' AND amount > 100`."""
    whole_group: bool
    """Only messages of groups that are complete."""


class SubscribeOptions(TypedDict, total=False):
    """What may be said about a subscription."""

    durable: str | None
    """Its name, by which it outlives the connection; not durable when left out."""
    name: str | None
    """A name for one that is not durable, so that others can share it."""
    shared: bool
    """Let several connections read it; each message goes to one of them."""
    selector: str | None
    """A condition over properties."""
    content: str | None
    """A condition over the body, such as `xpath:/order[total > 100]`."""
    queue: str | None
    """The queue to which publications go; one is made when left out."""
    wildcards: str
    """TOPIC: + for a level, # for any number. CHAR: * for any characters, ? for one."""
    new_only: bool
    """Leave out what was retained before the subscription."""


Check = Callable[[str, Any], Any]


def _number(low: int, high: int) -> Check:
    return lambda name, value: checks.whole_number(name, value, low, high)


def _optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


_PUT: dict[str, Check] = {
    "persistent": _optional(checks.flag),
    "priority": _optional(_number(0, PRIORITY_MAX)),
    "expiry_s": _optional(partial(checks.seconds, positive=True)),
    "delay_s": checks.seconds,
    "message_id": checks.identifier,
    "correlation_id": checks.identifier,
    "group_id": checks.identifier,
    "sequence": _number(1, 999_999_999),
    "last_in_group": checks.flag,
    "type": lambda _, value: value if value.__class__ is MessageType else checks.message_type(value),
    "report": _number(0, _INT32 - 1),
    "feedback": _number(-_INT32, _INT32 - 1),
    "reply_to": checks.text,
    "reply_to_manager": checks.text,
    "format": checks.text,
    "ccsid": _number(-_INT32, _INT32 - 1),
    "encoding": _number(-_INT32, _INT32 - 1),
    "properties": lambda _, value: {} if value is None else checks.properties(value),
    "wait_s": checks.wait,
}
_GET: dict[str, Check] = {
    "message_id": _optional(checks.wanted_identifier),
    "correlation_id": _optional(checks.wanted_identifier),
    "group_id": _optional(checks.wanted_identifier),
    "selector": _optional(lambda _, value: compile_selector(value)),
    "whole_group": checks.flag,
}


_SUBSCRIBE: dict[str, Check] = {
    "durable": _optional(lambda _, value: require_subscription_name(value)),
    "name": _optional(lambda _, value: require_subscription_name(value)),
    "shared": checks.flag,
    "selector": _optional(lambda _, value: compile_selector(value).text),
    "content": _optional(lambda _, value: compile_filter(value).text),
    "queue": _optional(checks.text),
    "wildcards": lambda _, value: _scheme(value),
    "new_only": checks.flag,
}


def _scheme(value: object) -> str:
    if value not in ("TOPIC", "CHAR"):
        raise InvalidArgument("wildcards", repr(value), "TOPIC or CHAR")
    return str(value)


class Sender(NamedTuple):
    """Who puts, as a message says it."""

    user: str
    application: str


Draft = tuple[Message, bool | None, int | None, float]
"""A message, the persistence and priority asked for, if any, and how long to wait for room."""


def draft(body: object, options: PutOptions, sender: Sender, **own: Any) -> Draft:
    """The message that the options describe, and what they say about putting it; `own` fields are not theirs to say.

    Raises:
        InvalidArgument: The first option that is wrong.
    """
    content = body if body.__class__ is bytes else checks.body(body)
    persistent = options.get("persistent")
    if len(options) == (persistent.__class__ is bool):  # that alone is said most, or nothing
        return Message(content, user=sender.user, application=sender.application, **own), persistent, None, 0.0
    fields = _checked(_PUT, options, "put") | own
    persistent = fields.pop("persistent", None)
    priority = fields.pop("priority", None)
    wait_s = fields.pop("wait_s", 0.0)
    message = Message(content, user=sender.user, application=sender.application, **fields)
    return message, persistent, priority, wait_s


_OF_ONE = ("message_id", "sequence", "last_in_group", "wait_s")


def drafts(queue: str, bodies: object, options: PutOptions, sender: Sender) -> list[PutInUnit]:
    """The same for many messages of which all is the same but their bodies.

    Raises:
        InvalidArgument: The first thing that is wrong.
    """
    if isinstance(bodies, bytes | bytearray | memoryview | str) or not isinstance(bodies, Iterable):
        raise InvalidArgument("bodies", f"one {type(bodies).__name__}", "several of them, such as [b'42 crates']")
    for name in _OF_ONE:
        if name in options:
            raise InvalidArgument(name, "it belongs to one message", "a put of its own for it")
    fields = _checked(_PUT, options, "put_many")
    persistent, priority = fields.pop("persistent", None), fields.pop("priority", None)
    return [(queue, persistent, priority, Message(checks.body(body), **sender._asdict(), **fields)) for body in bodies]


def publication(topic: object, body: object, options: PutOptions, sender: Sender, *, retain: bool) -> tuple[str, Draft]:
    """The same for a message that is published, and the name to put it to.

    Raises:
        InvalidTopic, InvalidArgument: The first thing that is wrong.
    """
    drafted = draft(body, options, sender)
    if retain:
        drafted = (replace(drafted[0], retained=checks.flag("retain", retain)), *drafted[1:])
    return topic_name(topic), drafted


def reply_to(request: Message) -> str:
    """The queue on which a request wants its reply.

    Raises:
        InvalidArgument: It wants none.
    """
    if not request.reply_to:
        raise InvalidArgument("request", "it names no queue for a reply", "a message with reply_to")
    return f"{request.reply_to}@{request.reply_to_manager}" if request.reply_to_manager else request.reply_to


def reply_options(request: Message, options: PutOptions) -> PutOptions:
    """What a reply says of itself unless it is told otherwise: whom it answers, and its request's persistence."""
    own: PutOptions = {
        "type": MessageType.REPLY,
        "correlation_id": request.message_id,
        "persistent": request.persistent,
        "priority": request.priority,
    }
    return own | options


def criteria(options: GetOptions) -> Criteria | None:
    """Which message the options ask for; None means the next one.

    Raises:
        InvalidArgument, SelectorSyntaxError: The first option that is wrong.
    """
    if not options:
        return None
    fields = _checked(_GET, options, "get")
    return Criteria(**fields) if any(fields.values()) else None


def topic_name(topic: object) -> str:
    """What a topic is called where a queue could stand, too.

    Raises:
        InvalidTopic
    """
    return _topic_name(topic) if isinstance(topic, str) else require_topic(topic)


@lru_cache(10_000)
def _topic_name(topic: str) -> str:
    return TOPIC_PREFIX + require_topic(topic)


def subscription(topic: str | None, options: SubscribeOptions) -> tuple[SubscriptionDefinition, bool]:
    """The subscription that the options describe, and whether what was retained before it is left out.

    Raises:
        InvalidArgument, InvalidTopic, SelectorSyntaxError, ContentFilterSyntaxError: The first thing that is wrong.
    """
    fields = _checked(_SUBSCRIBE, options, "subscribe")
    durable, name = fields.pop("durable", None), fields.pop("name", None)
    if durable and name:
        raise InvalidArgument("name", "the durable name is its name", "durable or name")
    shared = fields.pop("shared", False)
    if shared and not (durable or name):
        raise InvalidArgument("shared", "nobody can find a subscription without a name", "durable or name as well")
    if topic is None and not (durable or name):
        raise InvalidArgument("topic", "nothing says which", "a topic, or the name of a subscription that exists")
    scheme = fields.pop("wildcards", "TOPIC")
    if topic is not None:
        parse_pattern(topic, scheme)
    queue = fields.pop("queue", None)
    new_only = fields.pop("new_only", False)
    wanted = SubscriptionDefinition(
        name=durable or name or "",
        topic=topic or "",
        wildcards=scheme,
        selector=fields.pop("selector", None) or "",
        content=fields.pop("content", None) or "",
        destination=queue or "",
        managed=not queue,
        durable=bool(durable),
        shared=shared,
        type="API",
    )
    return wanted, new_only


def _checked(table: dict[str, Check], options: Mapping[str, Any], verb: str) -> dict[str, Any]:
    fields = {}
    for name, value in options.items():
        check = table.get(name)
        if check is None:
            raise InvalidArgument(name, f"{verb} knows no such option", ", ".join(table))
        fields[name] = check(name, value)
    return fields
