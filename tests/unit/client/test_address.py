# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

import pytest

from entrepot.client.address import Address, open_socket, parse
from entrepot.errors import CertificateUnusable, ConnectFailed, InvalidUrl
from folding import for_each

CANARY = "canary-Kx7-bird"


@pytest.fixture(autouse=True)
def no_password_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENTREPOT_PASSWORD", raising=False)


def test_a_folder_on_this_machine() -> None:
    assert parse("unix:./qm1") == Address(folder=Path("./qm1"))


def test_a_host_with_everything() -> None:
    found = parse(
        "mqs://ann:s%40cret@db.example:1500/QM1?channel=APP&ca=/etc/ca.pem&cert=ann.pem&key=ann.key&verify=no"
    )
    assert found == Address(
        host="db.example",
        port=1500,
        manager="QM1",
        channel="APP",
        user="ann",
        password="s@cret",
        tls=True,
        ca="/etc/ca.pem",
        certificate="ann.pem",
        key="ann.key",
        verify=False,
    )


def test_what_a_url_leaves_out_has_defaults() -> None:
    found = parse("mq://127.0.0.1")
    assert (found.port, found.manager, found.channel, found.user, found.tls, found.verify) == (
        1414,
        "",
        "",
        "",
        False,
        True,
    )
    assert parse("mq://[::1]:1415/QM1").host == "::1"


@for_each(
    "url",
    [
        "",
        "unix:",
        "mq:",
        "mq://",
        "mq:///QM1",
        "http://db.example/QM1",
        "mq://db.example:port/QM1",
        "mq://db.example:99999/QM1",
        "mq://db.example/QM1?chanel=APP",
        "mq://db.example/QM1?channel=A&channel=B",
        "mq://db.example/QM1?channel",
        "mq://[::1/QM1",
        "unix:a\0b",
        "mq://db\0.example/QM1",
    ],
)
def test_what_is_no_url_of_ours_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        parse(url)


def test_the_password_comes_from_the_url_the_argument_or_the_environment_in_this_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENTREPOT_PASSWORD", "environment")
    assert parse("mq://ann:url@h", password="argument").password == "url"
    assert parse("mq://ann@h", password="argument").password == "argument"
    assert parse("mq://ann@h").password == "environment"
    assert parse("mq://h", user="ann").password == "environment"
    assert parse("mq://h").password == ""  # nobody's password is shown for nobody


def test_neither_text_nor_error_shows_the_password() -> None:
    address = parse(f"mq://ann:{CANARY}@db.example/QM1")
    assert CANARY not in f"{address} {address!r} {[address]}"
    for url in (f"mq://ann:{CANARY}@db.example:port/QM1", f"ftp://ann:{CANARY}@db.example"):
        with pytest.raises(InvalidUrl) as refused:
            parse(url)
        assert CANARY not in str(refused.value)
        assert CANARY not in repr(refused.value)


def test_a_certificate_is_verified_unless_the_url_says_not_to() -> None:
    assert parse("mq://h").ssl_context() is None
    verifying = parse("mqs://h").ssl_context()
    assert (verifying.verify_mode, verifying.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert verifying.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert parse("mqs://h?verify=no").ssl_context().verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("value", ["No", "0", "false", "off", "", "nope"])
def test_only_the_word_no_switches_verification_off(value: str) -> None:
    assert parse(f"mqs://h?verify={value}").verify


def test_an_authority_that_is_not_there_is_an_error_and_no_excuse(tmp_path: Path) -> None:
    with pytest.raises(CertificateUnusable):
        parse(f"mqs://h?ca={tmp_path}/ca.pem").ssl_context()


def test_nobody_at_the_other_end_is_one_error_whatever_the_cause(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for url in (f"unix:{tmp_path}/missing", f"unix:{tmp_path}/empty", f"mq://127.0.0.1:{port}"):
            with pytest.raises(ConnectFailed):
                open_socket(parse(url), 1.0)


def test_a_socket_lies_in_a_folder_with_a_path_of_any_length(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        try:
            os.chdir(deep)
            listening.bind("socket")
        finally:
            os.chdir(before)
        listening.listen()
        open_socket(parse(f"unix:{deep}"), 1.0).close()
