# SPDX-License-Identifier: Apache-2.0
"""What is wrong with commands about topics and subscriptions is said with its place."""

from __future__ import annotations

from entrepot.server.mqsc import check_script
from folding import for_each

MANAGED = "DESTCLAS(MANAGED)"


@for_each(
    ("text", "column", "problem"),
    [
        ("DEFINE TOPIC(T)", 8, "DEFINE TOPIC needs TOPICSTR: a topic without wildcards, such as 'price/gold'"),
        ("ALTER TOPIC(T) TOPICSTR('a')", 16, "TOPICSTR is settled by DEFINE and cannot be altered"),
        (
            "DEF TOPIC(T) TOPICSTR('a/+')",
            23,
            "TOPICSTR, column 3: + alone as a level is a wildcard, and nobody can publish to it",
        ),
        ("DEF TOPIC(T) TOPICSTR('a') PUB(YES)", 32, "PUB takes ASPARENT or ENABLED or DISABLED, not YES"),
        ("ALT TOPIC(T) DURSUB(ENABLED)", 21, "DURSUB takes ASPARENT or YES or NO, not ENABLED"),
        ("ALT TOPIC(T) DEFPRTY(10)", 22, "DEFPRTY takes ASPARENT or a whole number from 0 to 9, not 10"),
        (
            "ALT TOPIC(T) DEFPRTY(ASPARNT)",
            22,
            "DEFPRTY takes ASPARENT or a whole number from 0 to 9, not ASPARNT (did you mean ASPARENT?)",
        ),
        ("ALT TOPIC(T) PMSGDLV(ALLDURR)", 22, None),
        ("ALT TOPIC(T) TYPE(CLUSTER)", 19, "TYPE takes only LOCAL, not CLUSTER"),
        ("DELETE TOPIC(T) PURGE", 17, "PURGE goes with QLOCAL, a TOPIC holds no messages"),
        ("DEF TOPIC('a b') TOPICSTR('a')", 11, None),
        ("DIS TOPIC(*) WHERE(DEFPRTY EQ HIGH)", 31, "DEFPRTY is ASPARENT or a whole number from 0 to 9, never HIGH"),
        ("DIS TOPIC(*) TOPICST", 14, "TOPICST is no keyword of TOPIC (did you mean TOPICSTR?)"),
        ("ALTER QMGR PARENT('a b')", 19, None),
    ],
)
def test_wrong_topic_is_named_where_it_stands(text: str, column: int, problem: str | None) -> None:
    (error,) = check_script(text)
    assert error.what.startswith(f"-, line 1, column {column}: {problem or ''}")


@for_each(
    ("text", "column", "problem"),
    [
        (f"DEFINE SUB('s') {MANAGED}", 8, "DEFINE SUB needs TOPICSTR or TOPICOBJ: the topics it is about"),
        (f"DEFINE SUB('s') TOPICSTR(' ') {MANAGED}", 8, "DEFINE SUB needs TOPICSTR or TOPICOBJ"),
        (
            "DEFINE SUB('s') TOPICSTR('a')",
            8,
            "DEFINE SUB needs DEST, the queue for its publications, or DESTCLAS(MANAGED)",
        ),
        (f"DEF SUB('s') TOPICOBJ('a b') {MANAGED}", 23, "TOPICOBJ takes a name of at most 48 characters"),
        ("DEF SUB('s') TOPICSTR('a') DEST('a b')", 33, "DEST takes a name of at most 48 characters"),
        ("DEF SUB('s') TOPICSTR('a') DESTCLAS(MINE)", 37, "DESTCLAS takes PROVIDED or MANAGED, not MINE"),
        (
            f"DEF SUB('s') TOPICSTR('a') {MANAGED} DEST(Q)",
            46,
            "DEST contradicts DESTCLAS(MANAGED): the queue is made for it",
        ),
        (f"DEF SUB('s') DESTQMGR(Q) TOPICSTR('a') {MANAGED}", 14, "DESTQMGR contradicts DESTCLAS(MANAGED)"),
        (
            f"DEF SUB('s') TOPICSTR('a%b') {MANAGED} WSCHEMA(CHAR)",
            23,
            "TOPICSTR, column 2: % stands only before *, ? or another %",
        ),
        (
            f"DEF SUB('s') TOPICSTR('a\tb') {MANAGED}",
            23,
            "TOPICSTR, column 2: a topic cannot have the character U+0009",
        ),
        (
            f"DEF SUB('s') TOPICSTR('{'a/' * 100}') {MANAGED}",
            23,
            "TOPICSTR, column 201: a topic has at most 100 levels",
        ),
        (f"DEF SUB('s') TOPICSTR('a') {MANAGED} SELECTOR('a >')", 55, "SELECTOR, column 4: "),
        ("ALT SUB('s') SELECTOR('a > > 1')", 23, "SELECTOR, column 5: "),
        ("ALT SUB('s') CONTENT('xpath:/a[')", 22, "CONTENT, column 10: "),
        ("ALT SUB('s') CONTENT('/a')", 22, "CONTENT, column 1: the language and a colon are missing"),
        ("ALT SUB('s') CONTENT('xslt:a')", 22, "CONTENT, column 1: there is no language 'xslt'"),
        ("ALT SUB('s') PUBPRTY(ASPARENT)", 22, "PUBPRTY takes ASPUB or ASQDEF or a whole number from 0 to 9"),
        ("ALT SUB('s') DESTCORL('ABC')", 23, "DESTCORL takes hex digits, two for each of at most 128 bytes, not ABC"),
        ("ALT SUB('s') EXPIRY(0)", 21, "EXPIRY takes UNLIMITED or a whole number from 1 to"),
        ("ALT SUB('s') EXPIRY(1.5)", 21, "EXPIRY takes UNLIMITED or a whole number from 1 to"),
        ("ALT SUB('s') TOPICSTR('b')", 14, "TOPICSTR is settled by DEFINE and cannot be altered"),
        ("ALT SUB('s') DESTCLAS(MANAGED)", 14, "DESTCLAS is settled by DEFINE and cannot be altered"),
        ("ALT SUB('s') WSCHEMA(CHAR)", 14, "WSCHEMA is settled by DEFINE and cannot be altered"),
        ("ALT SUB('s') TOPICOBJ(T)", 14, "TOPICOBJ goes with DEFINE, not with ALTER"),
        ("DEF QL(A) TOPICOBJ(T)", 11, "TOPICOBJ does not go with DEFINE QLOCAL"),
        ("ALT SUB('s') SUBUSER('ann')", 14, "SUBUSER can be displayed and not set"),
        ("ALT SUB('s') SUBTYPE(API)", 14, "SUBTYPE can be displayed and not set"),
        ("ALT SUB('s') DURABLE(NO)", 14, "DURABLE can be displayed and not set"),
        ("ALT SUB('s') SUBLEVEL(2)", 23, "SUBLEVEL takes only 1, not 2"),
        ("ALT SUB('s') VARUSER(NONE)", 22, "VARUSER takes FIXED or ANY"),
        ("ALT SUB('s') REQONLY(YES)", 22, "REQONLY takes only NO, not YES"),
        ("ALTER SUB USERDATA('x')", 7, "SUB needs a name in parentheses: SUB(NAME)"),
        ("DELETE SUB('')", 12, "'' is no valid name for a subscription. It has 1 to 1024 characters"),
        ("DELETE SUB('a\tb')", 12, "'a\\tb' is no valid name for a subscription"),
        (f"DELETE SUB('{'x' * 1025}')", 12, "'xxx"),
        (f"DEF SUB('s') TOPICSTR('a') {MANAGED} LIKE('')", 51, "'' is no valid name for a subscription"),
        ("DIS SUB(*) SUBTYPE(OURS)", 12, "SUBTYPE of SUB takes ADMIN, API, PROXY or ALL"),
        ("DIS SUB(*) WHERE(EXPIRY EQ SOON)", 28, "EXPIRY is UNLIMITED or a whole number from 1 to"),
    ],
)
def test_wrong_subscription_is_named_where_it_stands(text: str, column: int, problem: str) -> None:
    (error,) = check_script(f"\n{text}", "s.mqsc")
    assert error.what.startswith(f"s.mqsc, line 2, column {column}: {problem}")


@for_each(
    "text",
    [
        "DEF SUB('s') LIKE('other')",
        "DEF SUB('s') LIKE('other') TOPICSTR('a%b')",  # which wildcards the other one has is not known yet
        "DEF SUB('s') TOPICOBJ(T) DEST(Q)",
        "DEF SUB('s') TOPICSTR('#/a/+') DEST(Q) DESTQMGR(QM2) DESTCLAS(PROVIDED)",
        "DEF SUB('s') TOPICSTR('a%*b*') WSCHEMA(CHAR) DESTCLAS(MANAGED)",
        "ALT SUB('s') SELECTOR(' ') CONTENT('') DESTCORL('0aF0') EXPIRY(unlimited) PUBPRTY('asqdef')",
        "DELETE SUB('any text: it''s (printable) *')",
        "DEF TOPIC(T) TOPICSTR('a/b') TYPE(LOCAL)",
        "ALTER QMGR PARENT(''); ALTER QMGR PARENT(ABOVE)",
    ],
)
def test_right_command_passes(text: str) -> None:
    assert check_script(text) == []


def test_all_errors_of_a_subscription_are_found() -> None:
    script = "DEF SUB('s') TOPICSTR('%') WSCHEMA(CHAR) SELECTOR('=') PUBPRTY(10)"
    columns = [int(error.what.split("column ")[1].split(":")[0]) for error in check_script(script)]
    assert sorted(columns) == [5, 23, 51, 64]
