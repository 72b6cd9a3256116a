# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from entrepot.errors import MessageUnreadable, MessageUnwritable, ModelNotFound
from entrepot.esql import compile_statements
from entrepot.esql.runtime.fields import read_below
from entrepot.message import Message, MessageType
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.headers.mqrfh2 import write_mqrfh2
from entrepot.models.outgoing import Rendering
from entrepot.models.tree import Element, Folder, Root
from folding import for_each

PUT = datetime(2024, 2, 29, 12, 0, 0, tzinfo=UTC)

MESSAGE = Message(
    b"<order><id>7</id></order>",
    message_id=b"M" * 24,
    correlation_id=b"C" * 24,
    persistent=True,
    priority=5,
    type=MessageType.REQUEST,
    put_time=PUT.timestamp(),
    expiry_s=60.0,
    reply_to="REPLY",
    format="MQSTR",
    user="anna",
    topic="a/b",
)


def header(*folders: Element, format_name: str = "MQSTR", ccsid: int = 1208, encoding: int = 546) -> bytes:
    fixed = [Element("Format", format_name), Element("CodedCharSetId", ccsid), Element("Encoding", encoding)]
    return write_mqrfh2([*fixed, *folders], 546, 1208)


def folder(name: str, **values: Any) -> Element:
    element = Element(name)
    for key, value in values.items():
        element.add(key, value)
    return element


def keys(root: Root) -> list[str]:
    return [child.key for child in root]


def part(root: Root, name: str) -> Folder:
    found = root.first(name)
    assert isinstance(found, Folder)
    return found


def set_field(root: Root, *path: str, value: Any) -> None:
    element: Element = root
    for key in path:
        element = element.first(key) or element.add(key)
    element.set_value(value)


# --- in ----------------------------------------------------------------------------------------


def test_a_message_is_properties_descriptor_and_body_none_of_them_read() -> None:
    root = parse_message(MESSAGE, domain="XMLNSC", source_queue="IN").root
    assert keys(root) == ["Properties", "MQMD", "XMLNSC"]
    assert all(child._children is None for child in root)
    assert root.get("XMLNSC", "order", "id") == "7"
    assert root.get("MQMD", "SourceQueue") == "IN"


def test_the_properties_of_a_message() -> None:
    root = parse_message(
        MESSAGE, domain="XMLNSC", message_set="S", message_type="T", message_format="F", transactional=True
    ).root
    assert [(child.key, child.value) for child in part(root, "Properties")] == [
        ("MessageSet", "S"),
        ("MessageType", "T"),
        ("MessageFormat", "F"),
        ("Encoding", 546),
        ("CodedCharSetId", 1208),
        ("Transactional", True),
        ("Persistence", True),
        ("CreationTime", PUT),
        ("ExpirationTime", PUT.replace(minute=1)),
        ("Priority", 5),
        ("ReplyIdentifier", b"C" * 24),
        ("ReplyProtocol", "MQ"),
        ("Topic", "a/b"),
        ("ContentType", ""),
        ("IdentitySourceType", ""),
        ("IdentitySourceToken", ""),
        ("IdentitySourcePassword", ""),
        ("IdentitySourceIssuedBy", ""),
        ("IdentityMappedType", ""),
        ("IdentityMappedToken", ""),
        ("IdentityMappedPassword", ""),
        ("IdentityMappedIssuedBy", ""),
    ]
    assert part(parse_message(MESSAGE).root, "Properties").peek(("Priority",)) == (True, 5)


def test_without_a_domain_a_body_is_a_blob() -> None:
    root = parse_message(MESSAGE).root
    assert keys(root)[-1] == "BLOB"
    assert root.get("BLOB", "BLOB") == MESSAGE.body


def test_an_unknown_domain_is_refused_by_name() -> None:
    for name in ("DFDL", "MQMD", "xml"):
        with pytest.raises(ModelNotFound) as caught:
            parse_message(MESSAGE, domain=name)
        assert caught.value.name == name


@for_each(
    ("told", "given_domain", "domain"),
    [
        ("xml", "BLOB", "XML"),
        ("XMLNSC", "", "XMLNSC"),
        ("xmlns", "", "XMLNS"),
        ("none", "XMLNSC", "BLOB"),
        ("json", "", "JSON"),
        ("mime", "", "MIME"),
        ("jms_text", "XMLNSC", "XMLNSC"),
        ("jms_text", "", "BLOB"),
        ("nonsense", "", "BLOB"),
    ],
)
def test_the_domain_that_mcd_says_comes_before_the_caller_s(told: str, given_domain: str, domain: str) -> None:
    body = header(folder("mcd", Msd=told, Set="S")) + b"{}"
    root = parse_message(Message(body, format="MQHRF2"), domain=given_domain).root
    assert keys(root) == ["Properties", "MQMD", "MQRFH2", domain]
    assert root.get("Properties", "MessageSet") == "S"
    assert part(root, domain).body == b"{}"


def test_an_mrm_message_of_an_unknown_set_is_refused() -> None:
    body = header(folder("mcd", Msd="mrm", Set="NO_SUCH_SET", Type="T", Fmt="F"))
    with pytest.raises(ModelNotFound):
        parse_message(Message(body, format="MQHRF2"))


def test_the_body_behind_headers_has_the_code_page_that_the_last_one_tells() -> None:
    body = header(folder("usr", a="1"), ccsid=500, encoding=785) + "<a>é</a>".encode("cp500")
    root = parse_message(Message(body, format="MQHRF2"), domain="XMLNSC").root
    assert (part(root, "XMLNSC").ccsid, part(root, "XMLNSC").encoding) == (500, 785)
    assert root.get("Properties", "CodedCharSetId") == 500
    assert root.get("MQMD", "CodedCharSetId") == 1208
    assert root.get("MQRFH2", "usr", "a") == "1"


def test_a_header_that_nobody_reads_makes_the_body_a_blob() -> None:
    root = parse_message(Message(b"CIH ...", format="MQCICS"), domain="XMLNSC").root
    assert keys(root) == ["Properties", "MQMD", "BLOB"]
    inner = header(format_name="MQIMS") + b"IIH "
    root = parse_message(Message(inner, format="MQHRF2"), domain="XMLNSC").root
    assert keys(root) == ["Properties", "MQMD", "MQRFH2", "BLOB"]
    assert render_message(root).body == inner


def test_a_header_that_is_announced_and_not_there_is_refused() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        parse_message(Message(b"hello", format="MQHRF2"))
    assert caught.value.domain == "MQRFH2"


# --- out ---------------------------------------------------------------------------------------

WITH_HEADER = Message(header(folder("usr", a="1"), ccsid=819) + b"<a/>", format="MQHRF2", message_id=b"M" * 24)
WITH_PROPERTIES = Message(b"<a/>", format="MQSTR", properties={"Color": "red", "n": 1})


@for_each("message", [MESSAGE, WITH_HEADER, WITH_PROPERTIES, Message(b""), Message(b"x", ccsid=500)])
@for_each("domain", ["", "XMLNSC"])
def test_an_untouched_message_leaves_as_it_came(message: Message, domain: str) -> None:
    root = parse_message(message, domain=domain).root
    assert render_message(root) == message
    assert render_message(root.copy()) == message  # type: ignore[arg-type]
    for child in root.children[:-1]:
        _ = child.children
    assert render_message(root) == message


def test_an_untouched_message_is_the_same_object() -> None:
    assert render_message(parse_message(MESSAGE, domain="XMLNSC").root) is MESSAGE


def test_a_changed_body_changes_nothing_else() -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    set_field(root, "XMLNSC", "order", "id", value="8")
    rendered = render_message(root)
    assert rendered.body == b"<order><id>8</id></order>"
    assert rendered.message_id == MESSAGE.message_id
    assert [getattr(rendered, name) for name in ("priority", "user", "topic", "expiry_s", "format")] == [
        5,
        "anna",
        "a/b",
        60.0,
        "MQSTR",
    ]


@for_each(
    ("field", "value", "attribute", "expected"),
    [
        ("CorrelId", b"X" * 24, "correlation_id", b"X" * 24),
        ("CorrelId", bytes(24), "correlation_id", b""),
        ("CorrelId", "0102", "correlation_id", b"\x01\x02"),
        ("MsgId", None, "message_id", b""),
        ("ReplyToQ", "OTHER   ", "reply_to", "OTHER"),
        ("ReplyToQMgr", "QM2", "reply_to_manager", "QM2"),
        ("Format", "MQADMIN ", "format", "MQADMIN"),
        ("MsgType", 2, "type", MessageType.REPLY),
        ("Expiry", 15, "expiry_s", 1.5),
        ("Expiry", -1, "expiry_s", None),
        ("Priority", 9, "priority", 9),
        ("Priority", "3", "priority", 3),
        ("Priority", -1, "priority", 0),
        ("Persistence", 0, "persistent", False),
        ("Persistence", 2, "persistent", False),
        ("Report", 256, "report", 256),
        ("Feedback", 259, "feedback", 259),
        ("UserIdentifier", "bert", "user", "bert"),
        ("PutApplName", "app", "application", "app"),
        ("GroupId", b"G" * 24, "group_id", b"G" * 24),
        ("MsgSeqNumber", 4, "sequence", 4),
        ("MsgFlags", 24, "last_in_group", True),
        ("BackoutCount", 3, "backout_count", 3),
    ],
)
def test_a_changed_descriptor_field_changes_its_attribute_alone(
    field: str, value: Any, attribute: str, expected: Any
) -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    set_field(root, "MQMD", field, value=value)
    rendered = render_message(root)
    assert getattr(rendered, attribute) == expected
    others = [name for name in Message.__struct_fields__ if name != attribute]
    assert [getattr(rendered, name) for name in others] == [getattr(MESSAGE, name) for name in others]


@pytest.mark.parametrize(
    ("field", "value"),
    [("Priority", "high"), ("MsgType", 3), ("Expiry", 0), ("Expiry", -2), ("CorrelId", 5), ("ReplyToQ", b"Q")],
)
def test_a_descriptor_value_of_another_type_is_refused_by_path(field: str, value: Any) -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    set_field(root, "MQMD", field, value=value)
    with pytest.raises(MessageUnwritable) as caught:
        render_message(root)
    assert caught.value.path == f"MQMD.{field}"


def test_a_deleted_descriptor_field_has_its_default() -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    mqmd = part(root, "MQMD")
    reply_to = mqmd.first("ReplyToQ")
    assert reply_to is not None
    mqmd.remove(reply_to)
    assert render_message(root).reply_to == ""


def test_properties_count_where_the_descriptor_was_left_alone() -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    set_field(root, "Properties", "Priority", value=2)
    set_field(root, "Properties", "ReplyIdentifier", value=b"R" * 24)
    set_field(root, "Properties", "Persistence", value=False)
    set_field(root, "Properties", "Topic", value="c")
    rendered = render_message(root)
    assert (rendered.priority, rendered.correlation_id) == (2, b"R" * 24)
    assert (rendered.persistent, rendered.topic) == (False, "c")
    assert rendered.reply_to == "REPLY"


def test_the_descriptor_counts_where_both_were_changed() -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    set_field(root, "Properties", "Priority", value=2)
    set_field(root, "MQMD", "Priority", value=7)
    assert render_message(root).priority == 7


def test_without_a_descriptor_properties_tell_all_they_know() -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    root.remove(part(root, "MQMD"))
    rendered = render_message(root)
    assert (rendered.priority, rendered.persistent, rendered.correlation_id) == (5, True, b"C" * 24)
    assert (rendered.expiry_s, rendered.topic) == (60.0, "a/b")
    assert (rendered.message_id, rendered.reply_to, rendered.format) == (b"", "", "")


def test_a_tree_made_from_nothing_is_a_message() -> None:
    root = Root()
    set_field(root, "XMLNSC", "a", value="é")
    assert render_message(root) == Message("<a>é</a>".encode())
    set_field(root, "Properties", "Priority", value=3)
    assert render_message(root).priority == 3
    assert render_message(Root()) == Message(b"")


def test_what_no_folder_tells_comes_from_the_message_it_shall_be_like() -> None:
    root = Root()
    set_field(root, "BLOB", "BLOB", value=b"x")
    like = Message(b"old", message_id=b"L" * 24, delay_s=2.0, properties={"a": 1}, priority=4)
    rendered = render_message(root, like)
    assert rendered == Message(b"x", message_id=b"L" * 24, delay_s=2.0, properties={"a": 1}, priority=4)
    root = parse_message(MESSAGE).root
    rendered = render_message(root, Message(b"", delay_s=3.0, topic="t", message_id=b"L"))
    assert (rendered.delay_s, rendered.topic, rendered.message_id) == (3.0, "t", b"M" * 24)


def test_the_body_is_written_in_the_code_page_that_the_descriptor_says_now() -> None:
    message = Message("<a>é</a>".encode(), format="MQSTR")
    root = parse_message(message, domain="XMLNSC").root
    set_field(root, "MQMD", "CodedCharSetId", value=819)
    rendered = render_message(root)
    assert (rendered.body, rendered.ccsid) == ("<a>é</a>".encode("latin-1"), 819)
    root = parse_message(message, domain="XMLNSC").root
    set_field(root, "Properties", "CodedCharSetId", value=819)
    rendered = render_message(root)
    assert (rendered.body, rendered.ccsid) == ("<a>é</a>".encode("latin-1"), 819)


def test_a_new_body_is_written_in_the_code_page_of_the_message_it_came_with() -> None:
    root = parse_message(Message(b"\xc1", ccsid=500)).root
    root.remove(part(root, "BLOB"))
    set_field(root, "XMLNSC", "a", value="A")
    assert render_message(root).body == "<a>A</a>".encode("cp500")


def test_the_bytes_of_a_blob_are_the_same_in_every_code_page() -> None:
    root = parse_message(Message(b"\xc1\xff", ccsid=500)).root
    set_field(root, "MQMD", "CodedCharSetId", value=1208)
    rendered = render_message(root)
    assert (rendered.body, rendered.ccsid) == (b"\xc1\xff", 1208)


# --- headers out -------------------------------------------------------------------------------


def test_a_changed_header_is_written_and_the_chain_stays() -> None:
    root = parse_message(WITH_HEADER, domain="XMLNSC").root
    set_field(root, "MQRFH2", "usr", "a", value="22")
    rendered = render_message(root)
    assert rendered.body == header(folder("usr", a="22"), ccsid=819) + b"<a/>"
    assert (rendered.format, rendered.ccsid, rendered.properties) == ("MQHRF2", 1208, {})


def test_a_header_put_in_between_takes_over_what_was_told_of_the_body() -> None:
    root = parse_message(Message("<a>é</a>".encode("latin-1"), format="MQSTR", ccsid=819), domain="XMLNSC").root
    made = root.new_child("MQRFH2")
    root.insert(2, made)
    made.add("mcd").add("Msd", "xmlnsc")
    rendered = render_message(root)
    assert rendered.format == "MQHRF2"
    assert rendered.body == header(folder("mcd", Msd="xmlnsc"), ccsid=819) + "<a>é</a>".encode("latin-1")
    again = parse_message(rendered).root
    assert again.get("XMLNSC", "a") == "é"


def test_a_header_is_written_as_the_descriptor_says() -> None:
    root = parse_message(WITH_HEADER, domain="XMLNSC").root
    set_field(root, "MQMD", "Encoding", value=785)
    set_field(root, "MQMD", "CodedCharSetId", value=500)
    rendered = render_message(root)
    assert rendered.body[:12].hex() == "d9c6c84000000002" + f"{36 + 4 + 20:08x}"
    assert rendered.body.endswith(b"<usr><a>1</a></usr> <a/>")
    assert render_message(parse_message(rendered, domain="XMLNSC").root) == rendered


def test_a_header_before_a_utf_16_body_is_not_written_in_utf_16() -> None:
    body = "<a/>".encode("utf-16-le")
    root = parse_message(Message(body, format="MQSTR", ccsid=1202)).root
    made = root.new_child("MQRFH2")
    root.insert(2, made)
    made.add("mcd").add("Msd", "none")
    rendered = render_message(root)
    assert (rendered.ccsid, rendered.body[:4]) == (1208, b"RFH ")
    assert part(parse_message(rendered).root, "BLOB").ccsid == 1202


def test_properties_change_the_code_page_that_the_last_header_tells() -> None:
    root = parse_message(WITH_HEADER, domain="XMLNSC").root
    set_field(root, "Properties", "CodedCharSetId", value=500)
    rendered = render_message(root)
    assert rendered.ccsid == 1208
    assert rendered.body == header(folder("usr", a="1"), ccsid=500) + "<a/>".encode("cp500")


def test_a_header_taken_out_leaves_a_descriptor_that_tells_of_the_body() -> None:
    root = parse_message(WITH_HEADER).root
    root.remove(part(root, "MQRFH2"))
    rendered = render_message(root)
    assert (rendered.body, rendered.format, rendered.ccsid) == (b"<a/>", "MQSTR", 819)


def test_mcd_says_the_domain_that_the_body_is_in_now() -> None:
    message = Message(header(folder("mcd", Msd="xmlnsc", Set="S")) + b"<a/>", format="MQHRF2")
    root = parse_message(message).root
    root.remove(part(root, "XMLNSC"))
    set_field(root, "BLOB", "BLOB", value=b"x")
    assert render_message(root).body == header(folder("mcd", Msd="none")) + b"x"


def test_a_dead_letter_header_is_taken_off_or_kept() -> None:
    root = Root()
    set_field(root, "MQMD", "Format", value="MQSTR")
    set_field(root, "MQDLH", "DestQName", value="LOST")
    set_field(root, "MQDLH", "Reason", value=2053)
    set_field(root, "BLOB", "BLOB", value=b"body")
    rendered = render_message(root)
    assert (rendered.format, len(rendered.body)) == ("MQDEAD", 176)
    root = parse_message(rendered).root
    assert keys(root) == ["Properties", "MQMD", "MQDLH", "BLOB"]
    assert root.get("MQDLH", "Format") == "MQSTR   "
    root.remove(part(root, "MQDLH"))
    assert (render_message(root).format, render_message(root).body) == ("MQSTR", b"body")


def test_a_header_behind_the_body_and_a_folder_without_domain_are_refused() -> None:
    root = parse_message(MESSAGE).root
    root.add("MQRFH2").add("mcd").add("Msd", "xml")
    with pytest.raises(MessageUnwritable):
        render_message(root)
    root = parse_message(MESSAGE).root
    root.add("XMLNCS").add("a", 1)
    with pytest.raises(MessageUnwritable) as caught:
        render_message(root)
    assert caught.value.path == "Root.XMLNCS"
    root = parse_message(MESSAGE).root
    root.insert(2, Element("HTTPInputHeader"))
    assert render_message(root).body == MESSAGE.body


# --- message properties ------------------------------------------------------------------------


def test_message_properties_are_mqrfh2_usr_and_go_back() -> None:
    root = parse_message(WITH_PROPERTIES, domain="XMLNSC").root
    assert keys(root) == ["Properties", "MQMD", "MQRFH2", "XMLNSC"]
    assert root.get("MQRFH2", "usr", "Color") == "red"
    set_field(root, "MQRFH2", "usr", "Color", value="blue")
    set_field(root, "MQRFH2", "usr", "New", value=True)
    rendered = render_message(root)
    assert rendered.properties == {"Color": "blue", "n": 1, "New": True}
    assert (rendered.body, rendered.format) == (b"<a/>", "MQSTR")
    assert render_message(root.copy()) == rendered  # type: ignore[arg-type]


def test_properties_taken_out_of_the_tree_are_gone() -> None:
    root = parse_message(WITH_PROPERTIES, domain="XMLNSC").root
    root.remove(part(root, "MQRFH2"))
    assert render_message(root).properties == {}


def test_a_program_gives_a_message_properties() -> None:
    root = parse_message(MESSAGE, domain="XMLNSC").root
    made = root.new_child("MQRFH2")
    root.insert(2, made)
    made.add("usr").add("Color", "red")
    rendered = render_message(root)
    assert rendered.properties == {"Color": "red"}
    assert (rendered.body, rendered.format) == (MESSAGE.body, "MQSTR")


def test_properties_beside_a_header_of_the_body_stay_with_the_message() -> None:
    message = Message(WITH_HEADER.body, format="MQHRF2", properties={"Color": "red"})
    root = parse_message(message, domain="XMLNSC").root
    assert root.get("MQRFH2", "usr", "Color") is None
    set_field(root, "MQRFH2", "usr", "a", value="2")
    assert render_message(root).properties == {"Color": "red"}


def test_a_copy_of_a_changed_header_from_bytes_stays_bytes() -> None:
    root = parse_message(WITH_HEADER, domain="XMLNSC").root
    set_field(root, "MQRFH2", "usr", "a", value="2")
    assert render_message(root.copy()) == render_message(root)  # type: ignore[arg-type]


TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)

MESSAGES = st.builds(
    Message,
    st.binary(max_size=20),
    message_id=st.binary(max_size=30).map(lambda value: value if value.strip(b"\0") else b""),
    correlation_id=st.binary(max_size=24).map(lambda value: value if value.strip(b"\0") else b""),
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    type=st.sampled_from(list(MessageType)),
    put_time=st.floats(0, 4e9),
    expiry_s=st.none() | st.floats(0.01, 1e6),
    reply_to=TEXTS,
    sequence=st.integers(1, 100),
    format=st.sampled_from(["", "MQSTR", "MQCICS"]),
    ccsid=st.sampled_from([1208, 819, 500]),
    encoding=st.sampled_from([546, 273, 785]),
    user=TEXTS,
    properties=st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), TEXTS | st.integers(-5, 5), max_size=3),
    topic=TEXTS,
)


@given(MESSAGES)
@settings(max_examples=60)
def test_a_message_whose_folders_were_all_read_and_touched_leaves_as_it_came(message: Message) -> None:
    root = parse_message(message).root
    for child in root.children:
        for field in child.children:
            if not field.children:
                field.set_value(field.value)
    rendered = render_message(root)
    assert rendered == message


@given(MESSAGES, st.booleans(), st.none() | st.binary(max_size=20))
@settings(max_examples=60)
def test_the_short_way_out_comes_to_the_same_as_the_long_one(
    message: Message, with_header: bool, body: bytes | None
) -> None:
    if with_header:
        before = header(folder("usr", a="1"), format_name=message.format, ccsid=819)
        message = replace(message, body=before + message.body, format="MQHRF2", ccsid=1208, encoding=546)
    root = parse_message(message).root
    if body is not None:
        set_field(root, "BLOB", "BLOB", value=body)
    assert render_message(root) == Rendering(root, None).message()


# --- MRM ---------------------------------------------------------------------------------------


class _Letters:
    """A codec that shows with what it was called."""

    def parse(self, body: bytes, ccsid: int, encoding: int) -> list[Element]:
        return [Element("text", f"{body.decode('cp500')} {ccsid} {encoding}")]

    def render(self, message: Element, ccsid: int, encoding: int) -> bytes:
        return f"{message.get('text')}|{ccsid}|{encoding}".encode()


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """A message set named LETTERS; gives the names with which codecs were asked for."""
    from entrepot.models import message_sets
    from entrepot.models.logical import MessageFormat, MessageSet
    from entrepot.models.mrm import MrmDomain

    asked: list[tuple[str, str, str]] = []

    def codec(_: MrmDomain, wanted: MessageFormat) -> _Letters:
        asked.append((wanted.set.name, wanted.message, wanted.format))
        return _Letters()

    monkeypatch.setattr(MrmDomain, "codec", codec)
    known = MessageSet.__new__(MessageSet)
    object.__setattr__(known, "name", "LETTERS")
    monkeypatch.setitem(message_sets._sets, "LETTERS", known)
    return asked


def test_an_mrm_message_is_read_with_the_model_that_mcd_or_the_caller_names(letters: list[Any]) -> None:
    body = header(folder("mcd", Msd="mrm", Set="LETTERS", Type="T1", Fmt="F1"), ccsid=500, encoding=785) + b"\xc1"
    root = parse_message(Message(body, format="MQHRF2")).root
    assert root.get("MRM", "text") == "A 500 785"
    message = Message(b"\xc1", ccsid=500)
    root = parse_message(message, domain="MRM", message_set="LETTERS", message_type="T2", message_format="F2").root
    assert root.get("MRM", "text") == "A 500 546"
    assert letters == [("LETTERS", "T1", "F1"), ("LETTERS", "T2", "F2")]


def test_an_mrm_body_that_a_program_made_has_the_model_that_properties_name(letters: list[Any]) -> None:
    root = Root()
    set_field(root, "Properties", "MessageSet", value="LETTERS")
    set_field(root, "Properties", "MessageType", value="T")
    set_field(root, "Properties", "MessageFormat", value="F")
    set_field(root, "MQMD", "Encoding", value=785)
    set_field(root, "MRM", "text", value="x")
    assert render_message(root).body == b"x|1208|785"
    assert letters == [("LETTERS", "T", "F")]


def test_an_mrm_body_is_written_anew_when_its_encoding_changes(letters: list[Any]) -> None:
    message = Message(b"\xc1", ccsid=500)
    root = parse_message(message, domain="MRM", message_set="LETTERS").root
    assert render_message(root) is message
    set_field(root, "MQMD", "Encoding", value=785)
    assert render_message(root).body == b"A 500 546|500|785"
    assert letters


def test_an_mrm_body_without_any_model_is_refused() -> None:
    root = Root()
    set_field(root, "MRM", "text", value="x")
    with pytest.raises(MessageUnwritable):
        render_message(root)


def test_a_header_that_a_flow_only_asks_for_a_tag_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message(header(folder("usr", colour="red")) + b"<a/>", format="MQHRF2")
    root = parse_message(message, domain="XML").root
    monkeypatch.setattr("entrepot.models.headers.mqrfh2.read_folders", None)
    assert read_below(root, ("MQRFH2", "usr", "colour")) == "red"
    assert render_message(root) is message


def test_a_changed_body_leaves_behind_the_header_that_was_not_read() -> None:
    before = header(folder("usr", colour="red"))
    root = parse_message(Message(before + b"<a>1</a>", format="MQHRF2"), domain="XMLNSC").root
    body = root.first("XMLNSC")
    assert body is not None
    body.children[0].set_value("2")
    assert render_message(root).body == before + b"<a>2</a>"


def test_names_of_a_model_are_set_without_the_other_properties() -> None:
    statements = """SET OutputRoot.Properties = InputRoot.Properties;
        SET OutputRoot.Properties.MessageSet = 'shop';
        SET OutputRoot.Properties.MessageType = 'Order';"""
    came = parse_message(MESSAGE, domain="BLOB")
    ((_, made),) = compile_statements(statements, "test").compute(came)
    properties = made.root.first("Properties")
    assert properties is not None
    assert properties._children is None
    assert [properties.get(name) for name in ("MessageSet", "MessageType", "Priority")] == ["shop", "Order", 5]
    whole = parse_message(MESSAGE, domain="BLOB")
    ((_, made),) = compile_statements("SET OutputRoot = InputRoot;" + statements.partition(";")[2], "test").compute(
        whole
    )
    assert made.root.copy().first("Properties").get("MessageSet") == "shop"  # type: ignore[union-attr]
