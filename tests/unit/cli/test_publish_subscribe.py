# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from folding import for_each

from .conftest import Complaint, Shell


@pytest.fixture
def registry(shell: Shell, qm: Path) -> Path:
    """A queue manager with a durable subscription."""
    shell("subscribe", qm, "prices/#", "--durable", "desk-7")
    return qm


def collected(shell: Shell, qm: Path, *words: str) -> list[str]:
    """What the durable subscription had, and has no longer."""
    return [message["body"] for message in shell.lines("subscribe", qm, "--durable", "desk-7", *words)]


# --- publish -----------------------------------------------------------------------------------


def test_publication_is_told_and_reaches_a_durable_subscription(shell: Shell, registry: Path) -> None:
    told = shell.json("publish", registry, "prices/ibm", "231.50")
    assert (told["topic"], told["retained"], told["body_bytes"]) == ("prices/ibm", False, 6)
    (message,) = shell.lines("subscribe", registry, "--durable", "desk-7")
    assert [message["message_id"]] == told["message_ids"]
    assert (message["topic"], message["retained"], message["body"]) == ("prices/ibm", False, "231.50")
    assert shell.lines("subscribe", registry, "--durable", "desk-7") == []


def test_that_nobody_has_subscribed_is_no_error(shell: Shell, qm: Path) -> None:
    assert "6 bytes published on prices/ibm: message" in shell("publish", qm, "prices/ibm", "231.50").stdout


def test_descriptor_reaches_the_subscriber(shell: Shell, registry: Path) -> None:
    shell(
        "publish", registry, "prices/ibm", "body", "--priority", "7", "--expiry", "1000", "--correlation-id", "c0ffee",
        "--group-id", "g-1", "--group-sequence", "2", "--group-last",
        "--property", "region=EU", "-p", "size=3", "--reply-to", "REPLIES",
    )  # fmt: skip
    (message,) = shell.lines("subscribe", registry, "--durable", "desk-7")
    assert 0 < message.pop("expiry_s") <= 1000
    expected = {
        "priority": 7,
        "correlation_id": "c0ffee",
        "group_id": b"g-1".hex(),
        "sequence": 2,
        "last_in_group": True,
        "properties": {"region": "EU", "size": 3},
        "reply_to": "REPLIES",
        "persistent": True,
    }
    assert {key: message[key] for key in expected} == expected


def test_body_comes_from_a_file_or_from_standard_input(shell: Shell, registry: Path, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"from a file")
    shell("publish", registry, "prices/ibm", "--file", tmp_path / "body")
    shell("publish", registry, "prices/ibm", stdin=b"from a pipe")
    shell("publish", registry, "prices/ibm", "-", stdin=b"from a dash")
    assert collected(shell, registry) == ["from a file", "from a pipe", "from a dash"]


def test_dash_is_standard_input_for_put_too(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "-", stdin=b"from a dash")
    assert shell("get", qm, "Q", "--body-only").stdout == "from a dash"


def test_one_publication_can_be_published_many_times(shell: Shell, registry: Path) -> None:
    assert "and 599 more" in shell("publish", registry, "prices/ibm", "x", "--count", "600").stdout
    assert len(collected(shell, registry)) == 600


def test_nonpersistent_publication_warns_that_it_ends_with_the_command(shell: Shell, registry: Path) -> None:
    assert "ended with this command" in shell("publish", registry, "prices/ibm", "x", "--nonpersistent").stderr
    assert collected(shell, registry) == []


def test_styles_of_other_brokers_mean_the_same_topics(shell: Shell, qm: Path) -> None:
    shell("subscribe", qm, "prices.*.bid", "--style", "jms", "--durable", "sonic")
    shell("subscribe", qm, "prices.>", "--style", "tibco", "--durable", "tibco")
    assert shell.json("publish", qm, "prices.ibm.bid", "230", "--style", "jms")["topic"] == "prices/ibm/bid"
    shell("publish", qm, "prices/ibm/ask", "232")
    for name, bodies in (("sonic", ["230"]), ("tibco", ["230", "232"])):
        found = shell.lines("subscribe", qm, "--durable", name)
        assert [message["body"] for message in found] == bodies


# --- subscribe ---------------------------------------------------------------------------------


def test_what_was_retained_comes_first_unless_only_news_is_wanted(shell: Shell, qm: Path) -> None:
    assert "published on prices/ibm and retained" in shell("publish", qm, "prices/ibm", "1", "--retain").stdout
    shell("publish", qm, "prices/ibm", "2", "--retain")
    (kept,) = shell.lines("subscribe", qm, "prices/#")
    assert (kept["body"], kept["retained"]) == ("2", True)
    assert shell.lines("subscribe", qm, "prices/#", "--new-only") == []


def test_person_sees_topic_and_whether_it_was_retained(shell: Shell, qm: Path) -> None:
    shell("publish", qm, "prices/ibm", "231.50", "--retain")
    said = shell("subscribe", qm, "prices/+").stdout
    assert "prices/ibm, retained before" in said
    assert "231.50" in said


def test_bodies_alone(shell: Shell, registry: Path) -> None:
    shell("publish", registry, "prices/ibm", "x", "--count", "2")
    assert shell("subscribe", registry, "--durable", "desk-7", "--body-only").stdout == "x\nx"


def test_count_leaves_the_rest_to_the_next_command(shell: Shell, registry: Path) -> None:
    for body in ("1", "2", "3"):
        shell("publish", registry, "prices/ibm", body)
    assert collected(shell, registry, "--count", "2") == ["1", "2"]
    assert collected(shell, registry) == ["3"]


def test_selector_and_content_filter_choose(shell: Shell, qm: Path) -> None:
    shell("subscribe", qm, "orders/#", "--durable", "desk-7", "-s", "region = 'EU'", "--content", "xpath:/o[n > 9]")
    for region, body in (("EU", "<o><n>10</n></o>"), ("US", "<o><n>11</n></o>"), ("EU", "<o><n>2</n></o>")):
        shell("publish", qm, "orders/new", body, "-p", f"region={region}")
    assert collected(shell, qm) == ["<o><n>10</n></o>"]


def test_without_a_server_it_says_so_and_does_not_wait(shell: Shell, qm: Path) -> None:
    said = shell("subscribe", qm, "prices/#").stderr
    assert "no program can publish meanwhile" in said
    assert "Nothing was published." in said


def test_unsubscribe_ends_a_durable_subscription(shell: Shell, registry: Path, complaint: Complaint) -> None:
    shell("publish", registry, "prices/ibm", "x")
    assert "Subscription desk-7 has ended." in shell("unsubscribe", registry, "desk-7").stdout
    assert "SubscriptionNotFound T03" in complaint("subscribe", registry, "--durable", "desk-7")
    shell("subscribe", registry, "prices/#", "--durable", "desk-7")
    assert collected(shell, registry) == []
    assert shell.json("unsubscribe", registry, "desk-7") == {"unsubscribed": "desk-7"}


# --- while a server runs -----------------------------------------------------------------------


@pytest.fixture
def serving(shell: Shell, qm: Path) -> Iterator[Path]:
    shell("qm", "start", qm, "--detach")
    yield qm
    shell("qm", "stop", qm, "--immediate")


def test_publications_are_written_as_they_come_until_an_interrupt(shell: Shell, serving: Path) -> None:
    shell("publish", serving, "prices/ibm", "1", "--retain")
    command = [sys.executable, "-m", "entrepot.cli.main", "subscribe", str(serving), "prices/#", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        before = json.loads(reader.stdout.readline())
        shell("publish", serving, "prices/ibm", "2", "--nonpersistent")
        after = json.loads(reader.stdout.readline())
        reader.send_signal(signal.SIGINT)
        said = reader.stderr.read()
        assert reader.wait(timeout=60) == 130
    assert [(each["body"], each["retained"]) for each in (before, after)] == [("1", True), ("2", False)]
    assert said == ""


def test_readers_share_a_subscription_that_has_a_name(shell: Shell, serving: Path) -> None:
    words = ["subscribe", str(serving), "orders/#", "--name", "pool", "--shared", "--count", "1", "--body-only"]
    command = [sys.executable, "-m", "entrepot.cli.main", *words]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for reader in readers:
        assert reader.stderr is not None
        assert "Ctrl-C" in reader.stderr.readline()
    shell("publish", serving, "orders/new", "x")
    shell("publish", serving, "orders/new", "y")
    assert sorted(reader.communicate(timeout=60)[0] for reader in readers) == ["x", "y"]
    assert [reader.returncode for reader in readers] == [0, 0]


def test_durable_subscription_has_one_reader_at_a_time(shell: Shell, serving: Path, complaint: Complaint) -> None:
    words = ["subscribe", str(serving), "prices/#", "--durable", "desk-7"]
    with subprocess.Popen(
        [sys.executable, "-m", "entrepot.cli.main", *words], stderr=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stderr is not None
        assert "Ctrl-C" in reader.stderr.readline()
        assert "SubscriptionInUse T04" in complaint("subscribe", serving, "--durable", "desk-7")
        assert "SubscriptionInUse T04" in complaint("unsubscribe", serving, "desk-7")
        reader.send_signal(signal.SIGINT)
    shell("publish", serving, "prices/ibm", "while nobody reads")
    assert collected(shell, serving, "--wait", "0") == ["while nobody reads"]


# --- wrong words -------------------------------------------------------------------------------


@for_each(
    ("words", "code", "expected"),
    [
        (("publish", "prices/+/bid", "x"), 1, "topic 'prices/+/bid', column 8: + alone as a level is a wildcard"),
        (("publish", "", "x"), 1, "InvalidTopic T01"),
        (("publish", "prices/ibm", "x", "--style", "jms"), 1, "column 7: / separates levels here"),
        (("publish", "prices.*", "x", "--style", "tibco"), 1, "column 8"),
        (("publish", "prices", "x", "--style", "mqtt"), 2, "'mq', 'jms', 'tibco'"),
        (("publish", "prices", "x", "--priority", "10"), 1, "InvalidArgument S04"),
        (("publish", "prices", "x", "--property", "nonsense"), 2, "is no property"),
        (("publish", "prices", "x", "--file", "/dev/null"), 2, "not both"),
        (("publish", "prices", "x", "--count", "0"), 2, "count"),
        (("subscribe",), 2, "give TOPIC, or --durable NAME"),
        (("subscribe", "a\tb"), 1, "column 2: a topic cannot have the character U+0009"),
        (("subscribe", "prices.>.bid", "--style", "tibco"), 1, "column 8: > stands only at the end"),
        (("subscribe", "--durable", "nobody"), 1, "SubscriptionNotFound T03"),
        (("subscribe", "prices/#", "--durable", ""), 1, "InvalidName S03"),
        (("subscribe", "prices/#", "--selector", "region ="), 1, "SelectorSyntaxError Q21"),
        (("subscribe", "prices/#", "--content", "xpath:/order["), 1, "column 14"),
        (("subscribe", "prices/#", "--content", "sql:x"), 1, "ContentFilterSyntaxError T02"),
        (("subscribe", "prices/#", "--shared"), 1, "nobody can find a subscription without a name"),
        (("subscribe", "prices/#", "--durable", "a", "--name", "b"), 1, "the durable name is its name"),
        (("subscribe", "prices/#", "--json", "--body-only"), 2, "choose one"),
        (("subscribe", "prices/#", "--wait", "-1"), 2, "wait"),
        (("unsubscribe", "nobody"), 1, "SubscriptionNotFound T03"),
    ],
)
def test_wrong_words(complaint: Complaint, qm: Path, words: tuple[str, ...], code: int, expected: str) -> None:
    command, *rest = words
    assert expected in complaint(command, qm, *rest, code=code)


def test_subscription_cannot_be_opened_as_something_that_it_is_not(complaint: Complaint, registry: Path) -> None:
    assert "SubscriptionDiffers T05" in complaint("subscribe", registry, "orders/#", "--durable", "desk-7")


@pytest.mark.parametrize(
    ("attribute", "words", "expected"),
    [
        ("PUB(DISABLED)", ("publish", "prices/ibm", "x"), "PublishInhibited T06"),
        ("SUB(DISABLED)", ("subscribe", "prices/ibm"), "SubscribeInhibited T07"),
        ("DURSUB(NO)", ("subscribe", "prices/ibm", "--durable", "desk-7"), "DurabilityNotAllowed T08"),
    ],
)
def test_topic_object_forbids(
    shell: Shell, complaint: Complaint, qm: Path, attribute: str, words: tuple[str, ...], expected: str
) -> None:
    shell("mqsc", qm, "-e", f"DEFINE TOPIC(PRICES) TOPICSTR('prices') {attribute}")
    command, *rest = words
    said = complaint(command, qm, *rest)
    assert expected in said
    assert "ALTER TOPIC(PRICES)" in said


def test_help_teaches(shell: Shell) -> None:
    assert 'entrepot publish ./qm1 prices/ibm "231.50" --retain' in shell("publish", "--help").stdout
    taught = shell("subscribe", "--help").stdout
    assert 'entrepot subscribe ./qm1 "prices/#"' in taught
    assert '"xpath:/order[total > 9]"' in taught
    assert "entrepot unsubscribe ./qm1 desk-7" in shell("unsubscribe", "--help").stdout
