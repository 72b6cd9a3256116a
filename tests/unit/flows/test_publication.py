# SPDX-License-Identifier: Apache-2.0
"""Publication: the topics a message names, and what is published on them."""

from __future__ import annotations

from entrepot.errors import DestinationMissing

from .drawn import Stage, compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"


def published(statements: str = COPY, **properties: object) -> Stage:
    stage = Stage(
        drawn(
            "In -> Say -> Publish -> After",
            "Publish.failure -> Bad",
            In=reads(),
            Say=compute(statements),
            Publish=node("Publication", **properties),
            After=writes("AFTER"),
            Bad=writes("BAD"),
        )
    )
    stage.feed(b"<price>3</price>", backout_count=1)
    return stage


def test_the_topic_of_the_properties_counts() -> None:
    stage = published(COPY + "SET OutputRoot.Properties.Topic = 'prices/tea';")
    assert {topic: [message.body for message in messages] for topic, messages in stage.world.published.items()} == {
        "prices/tea": [b"<price>3</price>"]
    }
    assert stage.on("AFTER") == [b"<price>3</price>"]


def test_several_topics_are_published_one_by_one() -> None:
    stage = published(COPY + "SET OutputRoot.Properties.Topic[1] = 'a'; SET OutputRoot.Properties.Topic[2] = 'b';")
    assert sorted(stage.world.published) == ["a", "b"]


def test_a_publish_command_in_mqrfh2_counts_with_its_option_to_be_retained() -> None:
    stage = published(
        "SET OutputRoot.Properties = InputRoot.Properties; SET OutputRoot.MQMD = InputRoot.MQMD;"
        "SET OutputRoot.MQRFH2.psc.Command = 'Publish'; SET OutputRoot.MQRFH2.psc.PubOpt = 'RetainPub';"
        "SET OutputRoot.MQRFH2.psc.Topic = 'prices/rope'; SET OutputRoot.XMLNSC.price = 4;"
    )
    ((topic, (message,)),) = stage.world.published.items()
    assert (topic, message.retained) == ("prices/rope", True)


def test_the_node_s_own_topic_is_for_messages_that_name_none() -> None:
    stage = published(topic="prices", retain=True)
    ((topic, (message,)),) = stage.world.published.items()
    assert (topic, message.retained, message.backout_count) == ("prices", True, 0)
    assert list(published(COPY + "SET OutputRoot.Properties.Topic = 'tea';", topic="prices").world.published) == ["tea"]


def test_without_any_topic_it_is_an_error_of_the_node() -> None:
    stage = published()
    assert (dict(stage.world.published), stage.on("BAD")) == ({}, [b"<price>3</price>"])
    flow = drawn("In -> Publish", In=reads(), Publish=node("Publication"))
    assert isinstance(Stage(flow).feed().failures[0].error, DestinationMissing)
