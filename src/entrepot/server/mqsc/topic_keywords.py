# SPDX-License-Identifier: Apache-2.0
"""The tables of topics and subscriptions, and the forms of what they say.

Topics, selectors and content filters are read here when they are said, by
those who use them later: a subscription with a mistake in its condition
would get nothing and keep silent about it.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from entrepot import limits
from entrepot.engine.definitions import BASE_TOPIC, SubscriptionDefinition, Topic
from entrepot.engine.topics import TOPIC_CHARACTERS_MAX, compile_filter, parse_pattern, require_topic
from entrepot.errors import ContentFilterSyntaxError, InvalidTopic, SelectorSyntaxError
from entrepot.selectors import compile_selector
from entrepot.server.mqsc.forms import YES, Form, Hex, InvalidValue, Name, NumberOrWord, RowValue, Text, Words
from entrepot.server.mqsc.object_kind import ANYWHERE_WITHOUT_EFFECT, DESCR, Attribute, ObjectKind, words

CONDITION_CHARACTERS_MAX = limits.SELECTOR_CHARACTERS_MAX
USER_DATA_CHARACTERS_MAX = 10_240
EXPIRY_TENTHS_MAX = 999_999_999_999

_LINE_BREAK = re.compile(r"[\r\n]")
_LITERAL = re.compile(r"""'[^']*'|"[^"]*["]""")


@dataclass(frozen=True, slots=True)
class TopicNameForm(Form):
    """A topic without wildcards; blanks mean the root."""

    @property
    def expected(self) -> str:
        return "a topic without wildcards, such as 'price/gold'"

    def parse(self, text: str) -> str:
        if not text.strip(" "):
            return ""
        try:
            return require_topic(text)
        except InvalidTopic as error:
            raise InvalidValue(f"column {error.column}: {error.problem}") from None


@dataclass(frozen=True, slots=True)
class TopicPatternForm(Form):
    """Topics with the wildcards of WSCHEMA(TOPIC); `*` alone is every topic, blanks mean the root."""

    @property
    def expected(self) -> str:
        return "topics, such as 'price/#'"

    def parse(self, text: str) -> str:
        if not text.strip(" "):
            return ""
        topics = "#" if text == "*" else text
        if problem := pattern_problem(topics, "TOPIC"):
            raise InvalidValue(problem)
        return topics


class _Expression(Form):
    """A text that a parser has to understand; blanks mean none."""

    def parse(self, text: str) -> str:
        condition = Text(CONDITION_CHARACTERS_MAX).parse(text)
        if condition:
            self.read(condition)
        return condition

    def read(self, text: str) -> None:
        """Unfit, with the reason, when it cannot be understood."""
        raise NotImplementedError

    def show(self, value: Any) -> RowValue:
        # A program may have said it in several lines, which mean no more than blanks.
        return _LINE_BREAK.sub(" ", value)

    def fits(self, value: Any) -> bool:
        """Whether a script can say the same; a line break within a literal it cannot."""
        if any(_LINE_BREAK.search(literal) for literal in _LITERAL.findall(value)):
            return False
        return Form.fits(self, self.show(value))


@dataclass(frozen=True, slots=True)
class SelectorForm(_Expression):
    """A condition over properties."""

    @property
    def expected(self) -> str:
        return "a selector on one line, such as 'amount > 100'"

    def read(self, text: str) -> None:
        try:
            compile_selector(text)
        except SelectorSyntaxError as error:
            raise InvalidValue(f"column {error.column}: {error.problem}") from None


@dataclass(frozen=True, slots=True)
class ContentFilterForm(_Expression):
    """A condition over bodies."""

    @property
    def expected(self) -> str:
        return "a language and a condition on one line, such as 'xpath:/order[total > 100]'"

    def read(self, text: str) -> None:
        try:
            compile_filter(text)
        except ContentFilterSyntaxError as error:
            raise InvalidValue(f"column {error.column}: {error.problem}") from None


@dataclass(frozen=True, slots=True)
class TimePart(Form):
    """A part of a time in seconds since 1970, in UTC; 0 is not known."""

    pattern: str

    def show(self, value: Any) -> RowValue:
        return time.strftime(self.pattern, time.gmtime(value)) if value else ""

    def fits(self, value: Any) -> bool:
        return isinstance(value, int | float)


def _choice(text: str) -> Words:
    return Words({word: word for word in text.split()})


# --- topics ---------------------------------------------------------------------------------------


def _only_the_base_is_the_root(topic: Topic) -> tuple[str, str, str] | None:
    is_base = topic.name == BASE_TOPIC
    if is_base == (not topic.topic):
        return None
    if is_base:
        return ("TOPICSTR", repr(topic.topic), f"nothing: {BASE_TOPIC} is the root of all topics")
    return ("TOPICSTR", "nothing", f"a topic: the root has {BASE_TOPIC}")


_ON = _choice("ASPARENT ENABLED DISABLED")
_INHERITED = _choice("ASPARENT YES NO")
_REACH = _choice("ASPARENT ALL ALLDUR ALLAVAIL")
_SCOPE = _choice("ASPARENT ALL QMGR")

TOPIC = ObjectKind(
    Topic,
    "topic object",
    "TOPIC",
    (
        Attribute("TOPICSTR", "topic", TopicNameForm(), alterable=False, for_life=True, required=True),
        DESCR,
        Attribute("PUB", "publish", _ON),
        Attribute("SUB", "subscribe", _ON),
        Attribute("DURSUB", "durable", _INHERITED),
        Attribute("DEFPSIST", "default_persistent", _INHERITED),
        Attribute("DEFPRTY", "default_priority", NumberOrWord(0, limits.PRIORITY_MAX, {"ASPARENT": -1})),
        Attribute("PMSGDLV", "persistent_reach", _REACH),
        Attribute("NPMSGDLV", "nonpersistent_reach", _REACH),
        Attribute("USEDLQ", "use_dead_letter_queue", _INHERITED),
        Attribute("PUBSCOPE", "publication_scope", _SCOPE),
        Attribute("SUBSCOPE", "subscription_scope", _SCOPE),
        Attribute("WILDCARD", "wildcard", _choice("PASSTHRU BLOCK")),
        Attribute("MDURMDL", "durable_model", Name()),
        Attribute("MNDURMDL", "nondurable_model", Name()),
    ),
    without_effect=ANYWHERE_WITHOUT_EFFECT | words("CAPEXPRY CLROUTE CLUSTER COMMINFO DEFPRESP MCAST PROXYSUB"),
    fixed={"TYPE": "LOCAL"},
    rules=(_only_the_base_is_the_root,),
)


# --- subscriptions --------------------------------------------------------------------------------


def _topics_can_be_read(subscription: SubscriptionDefinition) -> tuple[str, str, str] | None:
    if not subscription.topic:
        return ("TOPICSTR", "missing", "the topics it is about")
    problem = pattern_problem(subscription.topic, subscription.wildcards)
    return ("TOPICSTR", repr(subscription.topic), f"topics; {problem}") if problem else None


def _publications_have_a_queue(subscription: SubscriptionDefinition) -> tuple[str, str, str] | None:
    if subscription.managed or subscription.destination:
        return None
    return ("DEST", "missing", "the queue for its publications, or DESTCLAS(MANAGED)")


def pattern_problem(topics: str, scheme: str) -> str:
    """What is wrong with the topics of a subscription; nothing when all is well."""
    try:
        parse_pattern(topics, scheme)
    except InvalidTopic as error:
        return f"column {error.column}: {error.problem}"
    return ""


SUBSCRIPTION_TYPES = _choice("ADMIN API PROXY")

SUBSCRIPTION = ObjectKind(
    SubscriptionDefinition,
    "subscription",
    "SUB",
    (
        # Its wildcards are read when WSCHEMA is known.
        Attribute("TOPICSTR", "topic", Text(TOPIC_CHARACTERS_MAX), alterable=False, for_life=True),
        Attribute("WSCHEMA", "wildcards", _choice("TOPIC CHAR"), alterable=False, for_life=True),
        DESCR,
        Attribute("SELECTOR", "selector", SelectorForm()),
        # Ours, as are DESCR and SHARED.
        Attribute("CONTENT", "content", ContentFilterForm()),
        Attribute("DESTCLAS", "managed", Words({"PROVIDED": False, "MANAGED": True}), alterable=False, for_life=True),
        Attribute("DEST", "destination", Name()),
        Attribute("DESTQMGR", "destination_manager", Name()),
        Attribute("DESTCORL", "correlation_id", Hex(limits.ID_BYTES_MAX)),
        Attribute("PUBPRTY", "priority", NumberOrWord(0, limits.PRIORITY_MAX, {"ASPUB": -1, "ASQDEF": -2})),
        Attribute("USERDATA", "user_data", Text(USER_DATA_CHARACTERS_MAX)),
        Attribute("EXPIRY", "expiry_s", NumberOrWord(1, EXPIRY_TENTHS_MAX, {"UNLIMITED": None}, parts=10)),
        Attribute("SUBSCOPE", "scope", _choice("ALL QMGR")),
        Attribute("SHARED", "shared", YES),
        Attribute("VARUSER", "any_user", Words({"FIXED": False, "ANY": True})),
        Attribute("DURABLE", "durable", YES, shown_only=True),
        Attribute("SUBTYPE", "type", SUBSCRIPTION_TYPES, shown_only=True),
        Attribute("SUBUSER", "user", Form(), shown_only=True),
        Attribute("CRDATE", "created", TimePart("%Y-%m-%d"), shown_only=True),
        Attribute("CRTIME", "created", TimePart("%H.%M.%S"), shown_only=True),
    ),
    without_effect=ANYWHERE_WITHOUT_EFFECT | words("PSPROP PUBACCT PUBAPPID SELTYPE SUBID"),
    # What would let fewer publications through must not pass as if it did.
    fixed={"REQONLY": "NO", "SUBLEVEL": "1"},
    selectors={"DURABLE": "DURABLE", "SUBTYPE": "SUBTYPE"},
    rules=(_topics_can_be_read, _publications_have_a_queue),
)
