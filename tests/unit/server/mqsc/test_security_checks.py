# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.server.mqsc import check_script
from folding import for_each


@for_each(
    ("text", "column", "problem"),
    [
        (
            "SET AUTHREC(X) OBJTYPE(QMGR) GROUP(G) AUTHADD(INQ)",
            5,
            "AUTHREC takes no name: PROFILE and OBJTYPE say which",
        ),
        (
            "SET AUTHREC PROFILE(X) GROUP(G) AUTHADD(PUT)",
            5,
            "SET AUTHREC needs OBJTYPE: QMGR or QUEUE or CHANNEL or TOPIC",
        ),
        ("SET AUTHREC OBJTYPE(QUEUE) GROUP(G) AUTHADD(PUT)", 5, "SET AUTHREC needs PROFILE: the names of the QUEUEs"),
        ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) AUTHADD(PUT)", 5, "SET AUTHREC needs PRINCIPAL or GROUP"),
        ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(' ') AUTHADD(PUT)", 5, "SET AUTHREC needs PRINCIPAL or GROUP"),
        ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(G)", 5, "SET AUTHREC needs AUTHADD or AUTHRMV"),
        (
            "SET AUTHREC PROFILE('X!') OBJTYPE(QUEUE) GROUP(G) AUTHADD(PUT)",
            13,
            "PROFILE cannot be X!. Expected: a name of at most 48",
        ),
        ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(G) AUTHADD(PUTT)", 56, "AUTHADD takes some of CONNECT, INQ, SET"),
        (
            "SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(G) AUTHRMV(CONNECT)",
            48,
            "AUTHRMV of a QUEUE takes PUT, GET, BROWSE, INQ, SET, DSP, CRT, CHG, DLT or CLR, not CONNECT",
        ),
        ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(G) AUTHLIST(PUT)", 48, "AUTHLIST can be displayed and not set"),
        ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(G) ACTION(ADD)", 48, "ACTION does not go with SET AUTHREC"),
        ("DELETE AUTHREC PROFILE(X) OBJTYPE(QUEUE)", 8, "DELETE AUTHREC needs PRINCIPAL or GROUP"),
        ("DELETE AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(G) DESCR(X)", 51, "DESCR does not go with DELETE AUTHREC"),
        (
            "DELETE AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP(G) AUTHADD(PUT)",
            51,
            "AUTHADD does not go with DELETE AUTHREC",
        ),
        ("DELETE QLOCAL(X) GROUP(G)", 18, "GROUP does not go with DELETE QLOCAL"),
        ("DISPLAY AUTHREC OBJTYPE(QEUE)", 17, "OBJTYPE of AUTHREC takes QMGR, QUEUE, CHANNEL, TOPIC, CLAIM or ALL"),
        ("DISPLAY AUTHREC PRINCIPAL(A B)", 17, "PRINCIPAL takes one value to select by"),
        ("DEFINE AUTHREC PROFILE(X)", 8, "DEFINE goes with QLOCAL,"),
        ("SET QLOCAL(X)", 5, "SET goes with AUTHREC or CHLAUTH, not with QLOCAL"),
        ("SET CHLAUTH(C)", 5, "SET CHLAUTH needs TYPE: ADDRESSMAP or USERMAP or SSLPEERMAP or BLOCKUSER or BLOCKADDR"),
        ("SET CHLAUTH TYPE(BLOCKUSER)", 5, "CHLAUTH needs a name in parentheses: CHLAUTH(NAME)"),
        ("SET CHLAUTH('a b') TYPE(BLOCKUSER) USERLIST(X)", 13, "CHLAUTH takes a name of at most 48 characters"),
        ("SET CHLAUTH(C) CHLAUTH(D) TYPE(BLOCKUSER) USERLIST(X)", 16, "CHLAUTH is given twice"),
        ("SET CHLAUTH(C) TYPE(QMGRMAP)", 21, "TYPE takes ADDRESSMAP or USERMAP or"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) USERSRC(NOACCESS)", 5, "ADDRESS is missing. Expected: whom TYPE(ADDRESSMAP)"),
        ("SET CHLAUTH(C) TYPE(USERMAP) MCAUSER(A)", 5, "CLNTUSER is missing. Expected: whom TYPE(USERMAP) is about"),
        ("SET CHLAUTH(C) TYPE(BLOCKUSER)", 5, "USERLIST is missing. Expected: whom TYPE(BLOCKUSER) is about"),
        ("SET CHLAUTH(C) TYPE(BLOCKUSER) USERLIST(A) MCAUSER(B)", 44, "MCAUSER does not go with TYPE(BLOCKUSER)"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(*)", 5, "MCAUSER is missing. Expected: the user that USERSRC(MAP)"),
        (
            "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(*) MCAUSER(A) USERSRC(NOACCESS)",
            44,
            "MCAUSER cannot be A. Expected: nothing with USERSRC(NOACCESS)",
        ),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(10.0.0.300) MCAUSER(A)", 41, "ADDRESS takes addresses such as"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRLIST(10.*) MCAUSER(A)", 33, "ADDRLIST does not go with TYPE(ADDRESSMAP)"),
        ("SET CHLAUTH(*) TYPE(BLOCKADDR) ADDRESS(1.*) ADDRLIST(2.*)", 45, "ADDRLIST contradicts ADDRESS"),
        ("SET CHLAUTH(C) TYPE(BLOCKADDR) ADDRESS(1.*)", 5, "CHLAUTH cannot be C. Expected: '*' with TYPE(BLOCKADDR)"),
        ("SET CHLAUTH(C) TYPE(SSLPEERMAP) SSLPEER(ANN) MCAUSER(A)", 41, "SSLPEER takes parts of a certificate's name"),
        (
            "SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER(A) MCAUSER(B) ACTION(REMOVE)",
            42,
            "MCAUSER does not go with ACTION(REMOVE)",
        ),
        (
            "SET CHLAUTH(C) TYPE(BLOCKUSER) USERLIST(A) ACTION(REMOVEALL)",
            32,
            "USERLIST does not go with ACTION(REMOVEALL)",
        ),
        ("SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER(A) MCAUSER(B) WARN(YES)", 58, "WARN takes only NO, not YES"),
        ("SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER(A) MCAUSER(B) CHCKCLNT(REQUIRED)", 62, "CHCKCLNT takes only ASQMGR"),
        ("DISPLAY CHLAUTH(*) TYPE(BLOCKUSR)", 20, "TYPE of CHLAUTH takes ADDRESSMAP, USERMAP, SSLPEERMAP, BLOCKUSER,"),
    ],
)
def test_wrong_word_is_named_where_it_stands(text: str, column: int, problem: str) -> None:
    error, *more = check_script(f"\n{text}", "script.mqsc")
    assert more == []
    assert error.what.startswith(f"script.mqsc, line 2, column {column}: {problem}")
