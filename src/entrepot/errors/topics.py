# SPDX-License-Identifier: Apache-2.0
"""Topics, publications and subscriptions."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class TopicError(EntrepotError):
    code = "T00"


class InvalidTopic(TopicError):
    topic: str
    column: int
    problem: str
    code = "T01"
    reason = 2425
    text = "topic {topic!r}, column {column}: {problem}"
    hint = "Levels are separated by /; + stands for one level and # for any number, only in subscriptions."


class ContentFilterSyntaxError(TopicError):
    expression: str
    column: int
    problem: str
    code = "T02"
    reason = 2459
    text = "content filter {expression!r}, column {column}: {problem}"
    hint = "Write LANGUAGE:EXPRESSION, such as xpath:/order[total > 100]."


class SubscriptionNotFound(TopicError):
    name: str
    code = "T03"
    reason = 2428
    text = "there is no subscription {name}"
    hint = "DISPLAY SUB(*) lists the durable ones; one that is not durable ends with its connection."


class SubscriptionInUse(TopicError):
    name: str
    problem: str
    code = "T04"
    reason = 2429
    retryable = True
    text = "subscription {name} is in use: {problem}"
    hint = "Close it there first, or let all its readers say shared=True."


class SubscriptionDiffers(TopicError):
    name: str
    attribute: str
    has: str
    wanted: str
    code = "T05"
    reason = 2510
    text = "subscription {name} exists with {attribute} {has}, and {wanted} was asked for"
    hint = "Ask for what it has, or unsubscribe first: that discards what it still holds."


class PublishInhibited(TopicError):
    topic: str
    administered: str
    code = "T06"
    reason = 2051
    text = "topic object {administered} allows no publications on {topic}"
    hint = "ALTER TOPIC({administered}) PUB(ENABLED)."


class SubscribeInhibited(TopicError):
    topic: str
    administered: str
    code = "T07"
    reason = 2503
    text = "topic object {administered} allows no subscriptions to {topic}"
    hint = "ALTER TOPIC({administered}) SUB(ENABLED)."


class DurabilityNotAllowed(TopicError):
    topic: str
    administered: str
    code = "T08"
    reason = 2436
    text = "topic object {administered} allows no durable subscriptions to {topic}"
    hint = "ALTER TOPIC({administered}) DURSUB(YES), or subscribe without a durable name."


class PublicationFailed(TopicError):
    topic: str
    failures: tuple[tuple[str, str], ...]
    code = "T09"
    reason = 2502

    @property
    def what(self) -> str:
        reasons = "; ".join(f"{name}: {problem}" for name, problem in self.failures)
        return f"no subscriber of {self.topic} has the publication, because some could not have it: {reasons}"

    hint = "Mend the queues that are named, or let PMSGDLV and NPMSGDLV of the topic allow that some go without."


class TopicObjectTaken(TopicError):
    topic: str
    name: str
    code = "T10"
    reason = 3092
    text = "topic {topic!r} has the topic object {name} already"
    hint = "ALTER TOPIC({name}), or delete it first."
