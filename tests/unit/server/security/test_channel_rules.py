# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.engine.definitions import ChannelRule
from entrepot.errors import AddressBlocked, AuthenticationFailed, InvalidSetting
from entrepot.server.security.channel_rules import (
    Allowed,
    Refused,
    Verdict,
    blocks_address,
    decide,
)
from folding import for_each

PEER = "CN=app7,OU=Orders,O=Port"


def rule(kind: str, profile: str, **fields: Any) -> ChannelRule:
    if fields.get("user"):
        fields.setdefault("user_source", "MAP")
    return ChannelRule(name=f"{kind} {profile} {sorted(fields.items())}", rule=kind, profile=profile, **fields)  # type: ignore[arg-type]


def block_users(profile: str, *users: str) -> ChannelRule:
    return rule("BLOCKUSER", profile, users=users)


def verdict(rules: list[ChannelRule], **facts: Any) -> Verdict:
    facts = {
        "channel": "APP.ORDERS",
        "address": "10.0.0.7",
        "client_user": "alice",
        "tls_peer": PEER,
        "channel_user": "",
        "administrators": frozenset({"root", "alice"}),
    } | facts
    return decide(rules, **facts)


def user(rules: list[ChannelRule], **facts: Any) -> str:
    """As whom he comes in, whatever the order of the rules; or why he does not."""
    answers = {
        each.user if isinstance(each, Allowed) else each.because
        for each in (verdict(list(order), **facts) for order in itertools.permutations(rules))
    }
    (answer,) = answers
    return answer


# --- without rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client_user", "channel_user", "expected"),
    [("alice", "app", "alice"), ("alice", "", "alice"), ("", "app", "app"), ("", "", "NOUSER")],
)
def test_without_rules_a_password_says_more_than_the_channel(
    client_user: str, channel_user: str, expected: str
) -> None:
    assert user([], client_user=client_user, channel_user=channel_user) == expected


# --- which rule maps ------------------------------------------------------------------------------

ADDRESS = rule("ADDRESSMAP", "APP.*", address="10.0.0.7", user="by.address")
USER = rule("USERMAP", "APP.*", client_user="alice", user="by.user")
CERTIFICATE = rule("SSLPEERMAP", "APP.*", tls_peer="O=Port", user="by.certificate")


@for_each(
    ("rules", "expected"),
    [
        ([ADDRESS], "by.address"),
        ([ADDRESS, USER], "by.user"),
        ([ADDRESS, USER, CERTIFICATE], "by.certificate"),
        ([ADDRESS, CERTIFICATE], "by.certificate"),
        # The channel's name decides before all of these.
        ([rule("ADDRESSMAP", "APP.ORDERS", address="*", user="exact"), USER, CERTIFICATE], "exact"),
        ([rule("ADDRESSMAP", "APP.O*", address="*", user="longer"), USER, CERTIFICATE], "longer"),
        ([rule("SSLPEERMAP", "*", tls_peer=PEER, user="wide"), ADDRESS], "by.address"),
        ([rule("USERMAP", "*.ORDERS", client_user="alice", user="wide"), ADDRESS], "by.address"),
        # Then what is matched.
        ([CERTIFICATE, rule("SSLPEERMAP", "APP.*", tls_peer="CN=app*", user="narrow")], "narrow"),
        ([USER, rule("USERMAP", "APP.*", client_user="a*", user="wide")], "by.user"),
        ([ADDRESS, rule("ADDRESSMAP", "APP.*", address="10.0.0.*", user="wide")], "by.address"),
        (
            [
                rule("ADDRESSMAP", "APP.*", address="10.0.0.1-20", user="range"),
                rule("ADDRESSMAP", "APP.*", address="10.0.0.0/24", user="block"),
                rule("ADDRESSMAP", "APP.*", address="*", user="all"),
            ],
            "range",
        ),
        # Then the address as well.
        ([USER, rule("USERMAP", "APP.*", client_user="alice", address="10.0.0.*", user="near")], "near"),
        ([USER, rule("USERMAP", "APP.*", client_user="alice", address="11.*", user="far")], "by.user"),
        # What does not fit counts for nothing.
        ([ADDRESS, rule("USERMAP", "APP.ORDERS", client_user="bob", user="bob")], "by.address"),
        ([rule("ADDRESSMAP", "OTHER", address="*", user_source="NOACCESS")], "alice"),
        ([rule("SSLPEERMAP", "*", tls_peer="CN=other", user_source="NOACCESS")], "alice"),
    ],
)
def test_most_specific_rule_maps(rules: list[ChannelRule], expected: str) -> None:
    assert user(rules) == expected


def test_no_access_by_default_and_open_where_a_rule_says_so() -> None:
    rules = [
        rule("ADDRESSMAP", "*", address="*", user_source="NOACCESS"),
        rule("ADDRESSMAP", "APP.*", address="10.0.*", user_source="CHANNEL"),
        rule("USERMAP", "APP.*", client_user="mallory", user_source="NOACCESS"),
    ]
    assert user(rules) == "alice"
    assert user(rules, client_user="", channel_user="app") == "app"
    assert user(rules, client_user="", channel_user="") == "NOUSER"
    assert user(rules, address="11.0.0.1") == "NOACCESS"
    assert user(rules, channel="ADMIN") == "NOACCESS"
    assert user(rules, client_user="mallory") == "NOACCESS"


def test_a_mapped_user_needs_no_password_and_no_channel_user() -> None:
    assert user([CERTIFICATE], client_user="") == "by.certificate"
    assert user([ADDRESS], client_user="") == "by.address"


def test_without_a_certificate_or_a_user_no_such_rule_fits() -> None:
    assert user([rule("SSLPEERMAP", "*", tls_peer="CN=*", user="x")], tls_peer="") == "alice"
    assert user([rule("USERMAP", "*", client_user="*", user="x")], client_user="", channel_user="app") == "app"


def test_a_map_without_a_user_lets_nobody_in() -> None:
    assert user([rule("ADDRESSMAP", "*", address="*", user_source="MAP")]) == "NOUSER"


# --- blocking -------------------------------------------------------------------------------------


def test_blocked_address_comes_before_everything() -> None:
    blocked = rule("BLOCKADDR", "*", address="10.0.0.*")
    rules = [blocked, rule("ADDRESSMAP", "APP.ORDERS", address="10.0.0.7", user="welcome")]
    assert user(rules) == "BLOCKADDR"
    assert user(rules, address="::ffff:10.0.0.7") == "BLOCKADDR"
    assert user(rules, address="10.0.1.7") == "alice"
    assert blocks_address(rules, "10.0.0.7") is blocked
    assert blocks_address(rules, "10.0.1.7") is None


def test_a_list_of_addresses_blocks_each_of_them() -> None:
    rules = [rule("BLOCKADDR", "*", address="10.0.0.1-5, 10.0.0.7")]
    assert user(rules) == "BLOCKADDR"
    assert user(rules, address="10.0.0.6") == "alice"


def test_administrators_are_blocked_on_all_channels_but_one() -> None:
    rules = [block_users("*", "*MQADMIN"), block_users("ADMIN.SVRCONN", "nobody")]
    assert user(rules, client_user="root") == "BLOCKUSER"
    assert user(rules, client_user="alice") == "BLOCKUSER"
    assert user(rules, client_user="bob") == "bob"
    assert user(rules, client_user="root", channel="ADMIN.SVRCONN") == "root"
    assert user(rules, client_user="nobody", channel="ADMIN.SVRCONN") == "BLOCKUSER"


def test_the_user_who_results_is_blocked_and_not_the_one_who_came() -> None:
    rules = [block_users("*", "*MQADMIN"), rule("USERMAP", "*", client_user="bob", user="root")]
    assert user(rules, client_user="bob") == "BLOCKUSER"
    rules = [block_users("*", "*MQADMIN"), rule("USERMAP", "*", client_user="root", user="bob")]
    assert user(rules, client_user="root") == "bob"
    assert user(rules, client_user="", channel_user="root") == "BLOCKUSER"


def test_two_lists_for_the_same_profile_both_block() -> None:
    rules = [block_users("APP.*", "bob"), rule("BLOCKUSER", "APP.*", users=("carol",), description="another")]
    assert user(rules, client_user="bob") == "BLOCKUSER"
    assert user(rules, client_user="carol") == "BLOCKUSER"
    assert user(rules, client_user="dave") == "dave"


def test_an_asterisk_blocks_everyone() -> None:
    assert user([block_users("*", "*")]) == "BLOCKUSER"
    assert user([block_users("*", "*")], client_user="", channel_user="bob") == "BLOCKUSER"


# --- verdicts -------------------------------------------------------------------------------------


def test_a_refusal_tells_the_log_which_rule_and_the_partner_nothing() -> None:
    refusals = [
        verdict([rule("ADDRESSMAP", "APP.*", address="*", user_source="NOACCESS")]),
        verdict([block_users("*", "alice")]),
        verdict([], client_user=""),
    ]
    told = set()
    for refused in refusals:
        assert isinstance(refused, Refused)
        error = refused.as_error("10.0.0.7")
        assert isinstance(error, AuthenticationFailed)
        told.add(str(error))
    assert told == {str(AuthenticationFailed())}
    assert [refused.reason() for refused in refusals if isinstance(refused, Refused)] == [
        "NOACCESS by rule CHLAUTH(APP.*) TYPE(ADDRESSMAP) for *",
        "user alice is blocked by rule CHLAUTH(*) TYPE(BLOCKUSER) for alice",
        "neither password, certificate, rule nor channel says who it is",
    ]
    blocked = verdict([rule("BLOCKADDR", "*", address="10.*")])
    assert isinstance(blocked, Refused)
    assert isinstance(blocked.as_error("10.0.0.7"), AddressBlocked)
    assert blocked.as_error("10.0.0.7").reason == 2035


def test_nobody_passes_a_rule_that_cannot_be_understood() -> None:
    for wrong in (
        rule("BLOCKADDR", "*", address="10.0.0"),
        rule("ADDRESSMAP", "*", address="localhost", user="x"),
        rule("SSLPEERMAP", "*", tls_peer="app7", user="x"),
    ):
        with pytest.raises(InvalidSetting):
            verdict([wrong])


# --- any rules ------------------------------------------------------------------------------------

ANY_PROFILE = st.sampled_from(["*", "APP.*", "APP.ORDERS", "*.ORDERS", "OTHER"])
ANY_ADDRESS = st.sampled_from(["*", "10.*", "10.0.0.7", "11.*"])
ANY_SOURCE = st.sampled_from(["MAP", "CHANNEL", "NOACCESS"])
ANY_RULE = st.one_of(
    st.builds(lambda p, a: rule("BLOCKADDR", p, address=a), ANY_PROFILE, st.sampled_from(["11.*", "10.0.0.9"])),
    st.builds(lambda p, u: block_users(p, u), ANY_PROFILE, st.sampled_from(["bob", "*MQADMIN", "nobody"])),
    st.builds(
        lambda p, a, s: rule("ADDRESSMAP", p, address=a, user_source=s, user="bob"),
        ANY_PROFILE,
        ANY_ADDRESS,
        ANY_SOURCE,
    ),
    st.builds(
        lambda p, s: rule("USERMAP", p, client_user="alice", user_source=s, user="carol"), ANY_PROFILE, ANY_SOURCE
    ),
    st.builds(
        lambda p, s: rule("SSLPEERMAP", p, tls_peer="O=Port", user_source=s, user="dave"), ANY_PROFILE, ANY_SOURCE
    ),
)


@settings(max_examples=300)
@given(st.lists(ANY_RULE, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_rules_never_matters(rules: list[ChannelRule], random: Any) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)
    first, second = verdict(rules), verdict(shuffled)
    if isinstance(first, Refused) and isinstance(second, Refused):
        assert first.because == second.because
    else:
        assert first == second


@settings(max_examples=300)
@given(st.lists(ANY_RULE, max_size=6))
def test_an_administrator_comes_in_only_where_no_rule_for_all_channels_is_left(rules: list[ChannelRule]) -> None:
    answer = verdict([*rules, block_users("*", "*MQADMIN")], client_user="root", channel="ELSEWHERE")
    assert not (isinstance(answer, Allowed) and answer.user == "root")
