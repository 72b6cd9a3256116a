# SPDX-License-Identifier: Apache-2.0
"""MQInput, MQOutput, MQReply and MQGet against what IBM's documentation says of them."""

from __future__ import annotations

import pytest

from entrepot.errors import DestinationMissing, FlowInvalid
from entrepot.flows.flow_world import Output
from entrepot.flows.kernel import Kernel
from entrepot.message import Message, MessageType, Report

from .drawn import Drawn, Stage, compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"
MESSAGE_ID, CORRELATION_ID = b"M" * 24, b"C" * 24


def passing(output: Drawn, *routes: str, **nodes: Drawn) -> Stage:
    return Stage(drawn("In -> Out", *routes, In=reads(), Out=output, **nodes))


# --- MQOutput -------------------------------------------------------------------------------------------


def test_a_message_that_nobody_changes_leaves_as_the_bytes_it_came_in() -> None:
    stage = passing(writes())
    stage.feed(b"<order  id='7' ></order >", message_id=MESSAGE_ID, correlation_id=CORRELATION_ID, priority=7)
    (message,) = stage.messages("OUT")
    assert message.body == b"<order  id='7' ></order >"
    assert (message.message_id, message.correlation_id, message.priority) == (MESSAGE_ID, CORRELATION_ID, 7)


def test_a_queue_of_another_queue_manager_is_named_with_it() -> None:
    journey = passing(writes("DONE", queue_manager="QM2")).feed()
    assert [output.destination for output in journey.outputs] == ["DONE@QM2"]


def test_new_ids_replace_the_old_ones() -> None:
    stage = passing(writes(new_message_id=True, new_correlation_id=True))
    stage.feed(message_id=MESSAGE_ID, correlation_id=CORRELATION_ID)
    (message,) = stage.messages("OUT")
    assert len({message.message_id, message.correlation_id, MESSAGE_ID, CORRELATION_ID}) == 4


@pytest.mark.parametrize(
    ("mode", "came", "leaves"),
    [("automatic", True, True), ("automatic", False, False), ("yes", False, True), ("no", True, False)],
)
def test_persistence_is_the_message_s_own_or_what_the_node_says(mode: str, came: bool, leaves: bool) -> None:
    stage = passing(writes(persistence=mode))
    stage.feed(persistent=came)
    assert [message.persistent for message in stage.messages("OUT")] == [leaves]


def test_persistence_that_a_compute_sets_in_mqmd_counts() -> None:
    stage = Stage(
        drawn("In -> Set -> Out", In=reads(), Out=writes(), Set=compute(COPY + "SET OutputRoot.MQMD.Persistence = 1;"))
    )
    stage.feed(persistent=False)
    assert [message.persistent for message in stage.messages("OUT")] == [True]


def test_without_mqmd_the_persistence_is_that_of_the_message_that_came_in() -> None:
    stage = Stage(
        drawn("In -> Make -> Out", In=reads(), Out=writes(), Make=compute("SET OutputRoot.XMLNSC.new = 'x';"))
    )
    stage.feed(persistent=True)
    assert [(message.body, message.persistent) for message in stage.messages("OUT")] == [(b"<new>x</new>", True)]


def test_the_backout_count_does_not_leave_with_the_message() -> None:
    stage = passing(writes())
    stage.feed(backout_count=1)
    assert [message.backout_count for message in stage.messages("OUT")] == [0]


LISTED = "SET OutputLocalEnvironment.Destination.MQ.DestinationData[{n}].{field} = {value};"


def listed(*entries: dict[str, str]) -> Drawn:
    statements = COPY + "".join(
        LISTED.format(n=number, field=field, value=value)
        for number, entry in enumerate(entries, 1)
        for field, value in entry.items()
    )
    return compute(statements, mode="destinationAndMessage")


def test_a_destination_list_names_each_queue_in_turn() -> None:
    names = listed({"queueName": "'A'"}, {"queueName": "'B'", "queueManagerName": "'QM2'"}, {"queueName": "'A'"})
    stage = Stage(drawn("In -> List -> Out", In=reads(), List=names, Out=node("MQOutput", destination="list")))
    journey = stage.feed()
    assert [output.destination for output in journey.outputs] == ["A", "B@QM2", "A"]


def test_an_entry_of_a_destination_list_goes_before_what_the_node_says() -> None:
    wanted = {
        "queueName": "'A'",
        "newMsgId": "'yes'",
        "persistenceMode": "'yes'",
        "replyToQ": "'ANSWERS'",
        "replyToQMgr": "'QM9'",
    }
    names = listed(wanted, {"queueName": "'B'"})
    stage = Stage(drawn("In -> List -> Out", In=reads(), List=names, Out=node("MQOutput", destination="list")))
    stage.feed(message_id=MESSAGE_ID, reply_to="REPLIES")
    (a,), (b,) = stage.messages("A"), stage.messages("B")
    assert a.message_id != MESSAGE_ID
    assert (a.persistent, a.reply_to, a.reply_to_manager) == (True, "ANSWERS", "QM9")
    assert (b.message_id, b.persistent, b.reply_to) == (MESSAGE_ID, False, "REPLIES")


def test_an_entry_may_be_put_outside_of_the_unit_of_work() -> None:
    names = listed({"queueName": "'NOW'", "transactionMode": "'no'"}, {"queueName": "'LATER'"})
    flow = drawn(
        "In -> List -> Out -> Fail",
        In=reads(transaction="yes"),
        List=names,
        Out=node("MQOutput", destination="list"),
        Fail=node("Throw"),
    )
    stage = Stage(flow)
    stage.feed()
    assert (len(stage.on("NOW")), len(stage.on("LATER"))) == (1, 0)


def test_an_empty_destination_list_is_an_error_of_the_node() -> None:
    flow = drawn(
        "In -> Out", "Out.failure -> Bad", In=reads(), Out=node("MQOutput", destination="list"), Bad=writes("BAD")
    )
    stage = Stage(flow)
    journey = stage.feed()
    assert len(stage.on("BAD")) == 1
    assert isinstance(journey.failures[0].error, DestinationMissing)


def test_reply_mode_sends_to_the_reply_to_queue_with_its_queue_manager() -> None:
    journey = passing(node("MQOutput", destination="reply")).feed(reply_to="REPLIES", reply_to_manager="QM7")
    assert [output.destination for output in journey.outputs] == ["REPLIES@QM7"]


def test_an_output_without_any_queue_is_refused_before_it_runs() -> None:
    with pytest.raises(FlowInvalid, match="queue"):
        Kernel(drawn("In -> Out", In=reads(), Out=node("MQOutput")))


def test_written_destination_tells_the_next_node_what_was_put_and_where() -> None:
    told = (
        "DECLARE data REFERENCE TO InputLocalEnvironment.WrittenDestination.MQ.DestinationData[1];"
        "SET OutputRoot.XMLNSC.told.queue = data.queueName;"
        "SET OutputRoot.XMLNSC.told.id = CAST(data.msgId AS CHARACTER);"
        "SET OutputRoot.XMLNSC.told.same = data.msgId = InputRoot.MQMD.MsgId;"
        "SET OutputRoot.XMLNSC.told.correl = CAST(data.correlId AS CHARACTER);"
    )
    stage = passing(writes("DONE", new_message_id=True), "Out -> Tell -> Log", Tell=compute(told), Log=writes("LOG"))
    stage.feed(message_id=MESSAGE_ID, correlation_id=CORRELATION_ID)
    (sent,) = stage.messages("DONE")
    shown = (
        f"<told><queue>DONE</queue><id>X'{sent.message_id.hex()}'</id><same>false</same><correl>X'{'43' * 24}'</correl>"
    )
    assert stage.on("LOG") == [f"{shown}</told>".encode()]


def test_written_destination_lists_every_queue_of_a_destination_list() -> None:
    flow = drawn(
        "In -> List -> Out -> Tell -> Log",
        In=reads(),
        List=listed({"queueName": "'A'"}, {"queueName": "'B'"}),
        Out=node("MQOutput", destination="list"),
        Tell=compute(
            "SET OutputRoot.XMLNSC.n = CARDINALITY(InputLocalEnvironment.WrittenDestination.MQ.DestinationData[]);"
        ),
        Log=writes("LOG"),
    )
    stage = Stage(flow)
    stage.feed()
    assert stage.on("LOG") == [b"<n>2</n>"]


# --- MQReply -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "message_id", "correlation_id"),
    [
        (0, None, MESSAGE_ID),
        (Report.PASS_MESSAGE_ID, MESSAGE_ID, MESSAGE_ID),
        (Report.PASS_CORRELATION_ID, None, CORRELATION_ID),
        (Report.PASS_MESSAGE_ID | Report.PASS_CORRELATION_ID, MESSAGE_ID, CORRELATION_ID),
    ],
)
def test_a_reply_has_the_ids_that_the_report_options_ask_for(
    report: int, message_id: bytes | None, correlation_id: bytes
) -> None:
    stage = passing(node("MQReply"))
    stage.feed(
        message_id=MESSAGE_ID,
        correlation_id=CORRELATION_ID,
        type=MessageType.REQUEST,
        reply_to="REPLIES",
        report=int(report),
    )
    (reply,) = stage.messages("REPLIES")
    assert reply.correlation_id == correlation_id
    assert reply.message_id == message_id if message_id else reply.message_id not in (MESSAGE_ID, b"")
    assert reply.type == MessageType.REPLY


def test_a_request_without_a_reply_to_queue_is_an_error_of_the_reply_node() -> None:
    stage = passing(node("MQReply"), "Out.failure -> Bad", Bad=writes("BAD"))
    journey = stage.feed()
    assert len(stage.on("BAD")) == 1
    assert isinstance(journey.failures[0].error, DestinationMissing)


@pytest.mark.parametrize(
    "sender", [node("MQReply"), node("MQOutput", destination="reply")], ids=["MQReply", "MQOutput"]
)
def test_a_reply_goes_to_no_queue_of_the_system_and_is_no_publication(sender: Drawn) -> None:
    stage = passing(sender, "Out.failure -> Bad", Bad=writes("BAD"))
    for reply_to in ("SYSTEM.DEFAULT.INITIATION.QUEUE", "topic:prices"):
        journey = stage.feed(reply_to=reply_to)
        assert f"ReplyToQ is {reply_to}, and takes no replies" in str(journey.failures[0].error)
    assert len(stage.on("BAD")) == 2
    assert set(stage.world.queues) <= {"BAD"}
    assert not stage.world.published


# --- MQGet -----------------------------------------------------------------------------------------------------


def getting(**properties: object) -> Stage:
    return Stage(
        drawn(
            "In -> Get -> Out",
            "Get.noMessage -> Missing",
            In=reads(),
            Get=node("MQGet", queue="PARTS", domain="XMLNSC", **properties),
            Out=writes(),
            Missing=writes("MISSING"),
        )
    )


def test_a_message_that_is_got_goes_on_in_the_place_of_the_one_that_came_in() -> None:
    stage = getting()
    stage.world.put_now(Output("PARTS", Message(b"<part/>")))
    stage.feed()
    assert (stage.on("OUT"), stage.on("PARTS"), stage.on("MISSING")) == ([b"<part/>"], [], [])


def test_without_a_message_the_one_that_came_in_goes_to_no_message() -> None:
    stage = getting()
    stage.feed(b"<order/>")
    assert (stage.on("OUT"), stage.on("MISSING")) == ([], [b"<order/>"])


def test_a_message_is_got_by_the_correlation_id_of_the_one_that_came_in() -> None:
    stage = getting(by_correlation_id=True)
    for name, key in (("other", b"X" * 24), ("right", CORRELATION_ID)):
        stage.world.put_now(Output("PARTS", Message(f"<{name}/>".encode(), correlation_id=key)))
    stage.feed(correlation_id=CORRELATION_ID)
    assert (stage.on("OUT"), stage.on("PARTS")) == ([b"<right/>"], [b"<other/>"])


def test_a_message_is_got_by_message_id_and_by_selector() -> None:
    by_id = getting(by_message_id=True)
    by_id.world.put_now(Output("PARTS", Message(b"<right/>", message_id=MESSAGE_ID)))
    by_id.feed(message_id=MESSAGE_ID)
    by_selector = getting(selector="region = 'EU'")
    for region in ("US", "EU"):
        part = Message(f"<{region}/>".encode(), properties={"region": region})
        by_selector.world.put_now(Output("PARTS", part))
    by_selector.feed()
    assert (by_id.on("OUT"), by_selector.on("OUT")) == ([b"<right/>"], [b"<EU/>"])


def test_browsing_leaves_the_message_where_it_is() -> None:
    stage = getting(browse=True)
    stage.world.put_now(Output("PARTS", Message(b"<part/>")))
    stage.feed()
    assert stage.on("OUT") == stage.on("PARTS") == [b"<part/>"]


def test_a_message_may_be_got_into_the_local_environment() -> None:
    stage = Stage(
        drawn(
            "In -> Get -> Tell -> Out",
            In=reads(),
            Get=node("MQGet", queue="PARTS", domain="XMLNSC", message="none", result_path="LocalEnvironment.Got"),
            Tell=compute(COPY + "SET OutputRoot.XMLNSC.order.part = InputLocalEnvironment.Got.XMLNSC.part;"),
            Out=writes(),
        )
    )
    stage.world.put_now(Output("PARTS", Message(b"<part>bolt</part>")))
    stage.feed(b"<order/>")
    assert stage.on("OUT") == [b"<order><part>bolt</part></order>"]


def test_a_message_that_expired_is_not_got() -> None:
    stage = getting()
    stage.world.put_now(Output("PARTS", Message(b"<part/>", expiry_s=10)))
    stage.world.pass_time(11)
    stage.feed(b"<order/>")
    assert stage.on("MISSING") == [b"<order/>"]


def test_asking_by_an_id_that_the_message_has_not_is_told() -> None:
    stage = Stage(
        drawn(
            "In -> Make -> Get -> Out",
            "Get.failure -> Bad",
            In=reads(),
            Make=compute("SET OutputRoot.XMLNSC.new = 'x';"),
            Get=node("MQGet", queue="PARTS", by_correlation_id=True),
            Out=writes(),
            Bad=writes("BAD"),
        )
    )
    stage.world.put_now(Output("PARTS", Message(b"<part/>")))
    journey = stage.feed()
    assert (stage.on("PARTS"), stage.on("BAD")) == ([b"<part/>"], [b"<new>x</new>"])
    assert "MQMD.CorrelId" in str(journey.failures[0].error)


# --- MQInput -----------------------------------------------------------------------------------------------------


def test_the_parser_of_the_input_node_is_blob_when_nobody_says() -> None:
    stage = Stage(
        drawn(
            "In -> Say -> Out",
            In=node("MQInput", queue="IN"),
            Say=compute("SET OutputRoot.XMLNSC.n = LENGTH(InputRoot.BLOB.BLOB);"),
            Out=writes(),
        )
    )
    stage.feed(b"\x00\x01\x02")
    assert stage.on("OUT") == [b"<n>3</n>"]


def test_a_header_that_cannot_be_read_fails_in_the_input_node_and_not_in_the_catch_path() -> None:
    stage = Stage(drawn("In -> Out", "In.catch -> Caught", In=reads(), Out=writes(), Caught=writes("CAUGHT")))
    stage.feed(b"RFH nonsense", format="MQHRF2")
    assert (stage.on("OUT"), stage.on("CAUGHT"), stage.on("DEAD.LETTERS")) == ([], [], [b"RFH nonsense"])


def test_a_message_whose_model_is_missing_reaches_the_failure_terminal_as_bytes() -> None:
    stage = Stage(drawn("In -> Out", "In.failure -> Bad", In=reads(), Out=writes(), Bad=writes("BAD")))
    stage.feed(b"<order/>", ccsid=31_999)
    assert stage.on("OUT") + stage.on("BAD") == [b"<order/>"]
