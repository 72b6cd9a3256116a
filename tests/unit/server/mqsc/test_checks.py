# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.server.mqsc import check_script
from entrepot.server.mqsc.syntax import ERRORS_PER_COMMAND_MAX
from folding import for_each


@for_each(
    ("text", "column", "problem"),
    [
        ("DEFIN QL(A)", 1, "DEFIN is no command (did you mean DEFINE?)"),
        ("DEL QL(A)", 1, "DEL is no command (did you mean DELETE?)"),
        ("MAXDEPTH(5)", 1, "MAXDEPTH begins no command (is a + missing at the end of the line before?)"),
        ("DEF QLOCL(A)", 5, "QLOCL is no kind of object (did you mean QLOCAL?)"),
        ("CLEAR QALIAS(A)", 7, "CLEAR goes with QLOCAL or TOPICSTR, not with QALIAS"),
        (
            "DELETE QMGR",
            8,
            "DELETE goes with QLOCAL, QMODEL, QALIAS, QREMOTE, PROCESS, NAMELIST, CHANNEL, LISTENER, TOPIC, SUB or"
            " AUTHREC, not with QMGR",
        ),
        ("PING", 1, "PING is followed by what it is about: QMGR or CHANNEL"),
        ("START QL(A)", 7, "START goes with CHANNEL or LISTENER, not with QLOCAL"),
        ("STOP CHL", 6, "CHANNEL needs a name in parentheses: CHANNEL(NAME)"),
        (
            "STOP CHL(*)",
            10,
            "'*' is no valid name for a CHANNEL. A name has 1 to 48 characters out of A-Z a-z 0-9 . _ / %",
        ),
        ("STOP CHL(A) MODE(FORC)", 18, "MODE takes QUIESCE or FORCE, not FORC (did you mean FORCE?)"),
        ("STOP LSTR(A) MODE(FORCE)", 14, "MODE does not go with STOP LISTENER"),
        ("STOP CHL(A) STATE(INACTIVE)", 13, "STATE does not go with STOP CHANNEL (did you mean STATUS?)"),
        ("RESET CHL(A) SEQNUM(0)", 21, "SEQNUM takes a whole number from 1 to 999999999, not 0"),
        ("RESOLVE CHL(A)", 1, "RESOLVE CHANNEL needs ACTION: COMMIT or BACKOUT"),
        ("DEFINE QLOCAL X", 8, "QLOCAL needs a name in parentheses: QLOCAL(X)"),
        ("DEFINE QLOCAL PUT(ENABLED)", 8, "QLOCAL needs a name in parentheses: QLOCAL(NAME)"),
        ("DEFINE QLOCAL(A B)", 17, "QLOCAL takes one name"),
        ("DEFINE QLOCAL()", 8, "QLOCAL takes one name"),
        ("ALTER QMGR(A)", 7, "QMGR takes no name: there is one"),
        ("DEF QL(A) MAXDPTH(3)", 11, "MAXDPTH is no keyword of QLOCAL (did you mean MAXDEPTH?)"),
        ("DEF QL(A) RNAME(B)", 11, "RNAME belongs to QREMOTE, not to QLOCAL"),
        ("DEF QL(A) PURGE", 11, "PURGE goes with DELETE, not with DEFINE"),
        ("DEF QL(A) CURDEPTH(3)", 11, "CURDEPTH can be displayed and not set"),
        ("ALT QL(A) LIKE(B)", 11, "LIKE goes with DEFINE, not with ALTER"),
        ("DELETE QL(A) PUT(ENABLED)", 14, "PUT does not go with DELETE QLOCAL"),
        ("DELETE QA(A) PURGE", 14, "PURGE goes with QLOCAL, a QALIAS holds no messages"),
        ("DEF QL(A) PUT(ENABLED) put(disabled)", 24, "PUT is given twice"),
        ("DEF QA(A) TARGET(B) TARGQ(C)", 21, "TARGQ contradicts TARGET, which is given before it"),
        ("DEF QL(A) TRIGGER NOTRIGGER", 19, "NOTRIGGER contradicts TRIGGER, which is given before it"),
        ("DEF QL(A) NOREPLACE REPLACE", 21, "REPLACE contradicts NOREPLACE, which is given before it"),
        ("DEF QL(A) SHARE NOSHARE", 17, "NOSHARE contradicts SHARE, which is given before it"),
        ("DEF QL(A) MAXDEPTH 5000", 11, "MAXDEPTH needs a value in parentheses: MAXDEPTH(5000)"),
        ("DEF QL(A) MAXDEPTH PUT(ENABLED)", 11, "MAXDEPTH needs a value in parentheses: MAXDEPTH(...)"),
        ("DEF QL(A) TRIGGER(YES)", 11, "TRIGGER stands alone, without parentheses"),
        ("DEF QL(A) REPLACE(YES)", 11, "REPLACE stands alone, without parentheses"),
        ("DEF QL(A) LIKE B", 11, "LIKE needs a value in parentheses: LIKE(B)"),
        ("DEF QL(A) PUT(ENABLE)", 15, "PUT takes ENABLED or DISABLED, not ENABLE (did you mean ENABLED?)"),
        ("DEF QL(A) MAXDEPTH(lots)", 20, "MAXDEPTH takes a whole number from 0 to 999999999, not LOTS"),
        ("DEF QL(A) MAXDEPTH(1000000000)", 20, "MAXDEPTH takes a whole number from 0 to 999999999, not 1000000000"),
        ("DEF QL(A) DEFPRTY(-1)", 19, "DEFPRTY takes a whole number from 0 to 9, not -1"),
        ("DEF QL(A) DEFPRTY()", 11, "DEFPRTY takes a whole number from 0 to 9, not nothing"),
        ("DEF QL(A) DEFTYPE(TEMPDYN)", 19, "DEFTYPE takes PREDEFINED or PERMDYN, not TEMPDYN"),
        ("ALT QL(A) DEFTYPE(PERMDYN)", 11, "DEFTYPE is settled by DEFINE and cannot be altered"),
        ("DIS QA(A) MAXDEPTH", 11, "MAXDEPTH belongs to QLOCAL or QMODEL, not to QALIAS"),
        ("DIS QL(A) MAXDEPT", 11, "MAXDEPT is no keyword of QLOCAL (did you mean MAXDEPTH?)"),
        ("DIS QL(A) MAXDEPTH(5)", 11, "MAXDEPTH stands alone in DISPLAY; WHERE(MAXDEPTH EQ ...) selects"),
        ("DIS Q(*) TYPE(QX)", 10, "TYPE of QUEUE takes QLOCAL, QMODEL, QALIAS, QREMOTE or ALL"),
        ("DIS QS(*) TYPE(HANDLE)", 11, "TYPE of QSTATUS takes QUEUE"),
        ("DIS Q(*) WHERE(CURDEPTH)", 10, "WHERE takes a keyword, an operator and a value: WHERE(CURDEPTH GT 0)"),
        ("DIS Q(*) WHERE(CURDEPT GT 0)", 16, "CURDEPT is no keyword of QUEUE (did you mean CURDEPTH?)"),
        ("DIS Q(*) WHERE(CURDEPTH GT lots)", 28, "CURDEPTH is a number, LOTS is none"),
        (
            "DIS Q(*) WHERE(MAXDEPTH LK 5*)",
            25,
            "MAXDEPTH is a number: compare it with EQ, NE, LT, GT, LE or GE",
        ),
        ("DIS Q(*) WHERE(PUT EQ ENABLD)", 23, "PUT is ENABLED or DISABLED, never ENABLD (did you mean ENABLED?)"),
        (
            "DIS Q(*) WHERE(PUT IS ENABLED)",
            20,
            "IS is no operator; there are EQ, LT, GT, LE, GE, LK, CT, NE, NL or EX",
        ),
    ],
)
def test_wrong_word_is_named_where_it_stands(text: str, column: int, problem: str) -> None:
    (error,) = check_script(f"\n{text}", "script.mqsc")
    assert error.what == f"script.mqsc, line 2, column {column}: {problem}"


def test_value_of_several_words_must_be_quoted() -> None:
    (error,) = check_script("DEF QL(A) DESCR(two words)")
    assert "column 21: DESCR takes one value (with blanks or commas it belongs in quotes" in error.what


@pytest.mark.parametrize("name", ["'a b'", "'" + "x" * 49 + "'", "A-B", "'*'"])
def test_name_of_a_new_object_must_be_valid(name: str) -> None:
    (error,) = check_script(f"DEF QL({name})")
    assert "column 8" in error.what
    assert "is no valid name for a QLOCAL" in error.what


def test_text_has_a_greatest_length() -> None:
    assert check_script(f"DEF QL(A) DESCR('{'x' * 64}')") == []
    (error,) = check_script(f"DEF QL(A) DESCR('{'x' * 65}')")
    assert "DESCR takes a text of at most 64 characters" in error.what


def test_member_of_a_list_is_named_where_it_stands() -> None:
    (error,) = check_script("DEF NL(N) NAMES(A, +\n  B!, C)")
    assert error.what.startswith("-, line 2, column 3: NAMES takes at most")


def test_command_that_only_mq_has_is_called_that() -> None:
    (error,) = check_script("REFRESH SECURITY")
    assert "MQ's REFRESH is not part of Entrepot; there are DEFINE, ALTER," in error.what


def test_all_errors_of_a_script_are_found_with_their_places() -> None:
    script = """\
* Queues of the shop
DEFINE QLOCAL(ORDERS) +
       MAXDEPTH(ten) +
       DESCR('Orders')  PUT(ON) +
       TRIGER
DEFINE QALIAS(O) TARGET(ORDERS)
DEFNE QLOCAL(X); ALTER QLOCAL(O) MSGDLVSQ(LIFO)
DEFINE QREMOTE(R) RNAME('it's)
"""
    places = [error.what.split(":")[0] for error in check_script(script)]
    assert places == [
        "-, line 3, column 17",
        "-, line 4, column 29",
        "-, line 5, column 8",
        "-, line 7, column 1",
        "-, line 7, column 43",
        "-, line 8, column 29",
    ]


def test_error_shows_the_line_and_a_caret() -> None:
    (error,) = check_script("DEF\tQL(A) PUT(ON)")
    assert str(error).endswith("\n  DEF QL(A) PUT(ON)\n                ^")


def test_what_follows_end_is_not_read() -> None:
    assert check_script("PING QMGR\nEND\nNONSENSE") == []


@pytest.mark.parametrize("text", ["'a' " * 1000, "DEF QL(A) " + " ".join(f"X{number}" for number in range(1000))])
def test_command_full_of_errors_brings_only_the_first_of_them(text: str) -> None:
    assert len(check_script(text)) == ERRORS_PER_COMMAND_MAX
