# SPDX-License-Identifier: Apache-2.0
"""Handshakes in memory: two ends that hand each other their bytes."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.errors import CertificateUnusable, FileNotPrivate, InvalidArgument
from entrepot.server.security import der, tls
from entrepot.testing.certificates import Certificates, make_certificates, openssl

pytestmark = pytest.mark.skipif(openssl() is None, reason="needs the openssl command")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ours") / "tls", ["server", "app1"])


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("theirs") / "tls", ["server", "app1"])


@pytest.fixture(scope="module")
def expired(made: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("old") / "tls", ["server", "app1"], days=0)


def client(trusted: Certificates, shown: Path | None = None, **more: Any) -> ssl.SSLContext:
    own = (shown / "cert.pem", shown / "key.pem") if shown else (None, None)
    return tls.client_context(trusted.authority, *own, **more)


def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after the handshake, or the error of the one that ended it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                pass
    # With TLS 1.3 the client is done before the server has seen its certificate, and hears of it when it reads.
    for end in ends:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.read(1)
    assert len(done) == 2
    return ends[1], ends[0]


def test_both_ends_agree_on_tls_and_know_each_other(made: Certificates) -> None:
    server, partner = handshake(tls.server_context(made.of("server"), "required"), client(made, made.of("app1")))
    assert server.version() == "TLSv1.3"
    assert server.compression() is None
    assert tls.peer_name(server.getpeercert() or {}) == "CN=app1,O=Port"
    assert tls.peer_name(server.getpeercert(binary_form=True) or b"") == "CN=app1,O=Port"
    assert tls.peer_name(partner.getpeercert() or {}) == "CN=server,O=Port"


def test_optional_certificates_may_be_missing_and_must_be_right(made: Certificates, foreign: Certificates) -> None:
    context = tls.server_context(made.of("server"), "optional")
    server, _ = handshake(context, client(made))
    assert server.getpeercert() is None
    server, _ = handshake(context, client(made, made.of("app1")))
    assert tls.peer_name(server.getpeercert() or {}) == "CN=app1,O=Port"
    with pytest.raises(ssl.SSLError):
        handshake(context, client(made, foreign.of("app1")))


@pytest.mark.parametrize("shown", [None, "foreign", "expired"])
def test_required_certificates_must_be_shown_ours_and_valid(
    made: Certificates, foreign: Certificates, expired: Certificates, shown: str | None
) -> None:
    folder = {"foreign": foreign.of("app1"), "expired": expired.of("app1")}.get(shown or "")
    server_folder = expired if shown == "expired" else made
    context = tls.server_context(server_folder.of("server"), "required")
    with pytest.raises(ssl.SSLError):
        handshake(context, client(made, folder, verify=False))


def test_a_client_refuses_a_foreign_an_expired_and_a_wrongly_named_server(
    made: Certificates, foreign: Certificates, expired: Certificates
) -> None:
    good = tls.server_context(made.of("server"))
    handshake(good, client(made))
    handshake(good, client(foreign, verify=False))
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|signature failure|self.signed"):
        handshake(good, client(foreign))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(tls.server_context(expired.of("server")), client(expired))
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(good, client(made), "elsewhere.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(good, tls.client_context())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_tls_before_1_2_is_refused(made: Certificates, version: ssl.TLSVersion) -> None:
    old = client(made)
    old.minimum_version = version
    old.maximum_version = version
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        handshake(tls.server_context(made.of("server")), old)


def test_ciphers_without_forward_secrecy_are_refused(made: Certificates) -> None:
    context = tls.server_context(made.of("server"))
    for each in (context, client(made), tls.client_context(verify=False)):
        assert all(cipher["name"].startswith(("TLS_", "ECDHE-")) for cipher in each.get_ciphers())
        assert each.minimum_version == ssl.TLSVersion.TLSv1_2
        assert each.options & ssl.OP_NO_COMPRESSION
        assert each.options & ssl.OP_NO_RENEGOTIATION
    old = client(made)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    server, _ = handshake(context, old)
    assert server.version() == "TLSv1.2"


def test_plain_text_ends_the_handshake(made: Certificates) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = tls.server_context(made.of("server")).wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(b"CONNECT QM1\r\n" * 10)
    with pytest.raises(ssl.SSLError):
        server.do_handshake()


def test_without_an_authority_of_its_own_a_client_trusts_those_of_the_machine(
    made: Certificates, foreign: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
    handshake(tls.server_context(made.of("server")), tls.client_context())
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls.server_context(foreign.of("server")), tls.client_context())


def test_with_an_authority_of_its_own_a_client_does_not_trust_those_of_the_machine(
    made: Certificates, foreign: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(foreign.authority))
    handshake(tls.server_context(made.of("server")), client(made))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls.server_context(foreign.of("server")), client(made))


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
def folder(made: Certificates, tmp_path: Path) -> Path:
    shutil.copytree(made.of("server"), tmp_path / "tls")
    return tmp_path / "tls"


def test_a_key_that_others_can_read_is_refused(folder: Path) -> None:
    (folder / "key.pem").chmod(0o640)
    with pytest.raises(FileNotPrivate, match=r"key\.pem.*640"):
        tls.server_context(folder)
    with pytest.raises(FileNotPrivate):
        tls.client_context(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")


def test_a_link_to_a_private_key_is_as_good_as_the_key(folder: Path) -> None:
    (folder / "key.pem").rename(folder / "key-2026.pem")
    (folder / "key.pem").symlink_to("key-2026.pem")
    tls.server_context(folder)
    (folder / "key-2026.pem").chmod(0o644)
    with pytest.raises(FileNotPrivate):
        tls.server_context(folder)


@pytest.mark.parametrize("missing", ["cert.pem", "key.pem", "ca.pem"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(CertificateUnusable, match=f"{missing} .*No such file") as caught:
        tls.server_context(folder, "required")
    assert caught.value.problem == "No such file or directory"
    if missing == "ca.pem":
        tls.server_context(folder, "none")


@pytest.mark.parametrize("wrong", ["cert.pem", "key.pem", "ca.pem"])
@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_that_is_none_is_named(folder: Path, wrong: str, content: bytes) -> None:
    (folder / wrong).write_bytes(content)
    with pytest.raises(CertificateUnusable, match=f"{wrong}.*(no PEM file of its kind|no certificate in PEM form)"):
        tls.server_context(folder, "required")


def test_a_weak_key_is_told(folder: Path) -> None:
    command = [openssl() or "", "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-days", "1", "-subj", "/CN=weak"]
    out = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*command, *out], check=True, capture_output=True)
    with pytest.raises(CertificateUnusable, match="too weak"):
        tls.server_context(folder)


def test_the_key_to_another_certificate_is_told(folder: Path, made: Certificates) -> None:
    shutil.copy(made.of("app1") / "key.pem", folder / "key.pem")
    with pytest.raises(CertificateUnusable, match="key to another certificate"):
        tls.server_context(folder)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(folder: Path) -> None:
    command = [openssl() or "", "ec", "-in", folder / "key.pem", "-aes256", "-passout", "pass:secret", "-out"]
    subprocess.run([*command, folder / "locked.pem"], check=True, capture_output=True)
    shutil.copyfile(folder / "locked.pem", folder / "key.pem")
    with pytest.raises(CertificateUnusable, match="protected by a password"):
        tls.server_context(folder)


def test_an_authority_that_is_none_is_refused(folder: Path) -> None:
    shutil.copy(folder / "cert.pem", folder / "ca.pem")
    with pytest.raises(CertificateUnusable, match="no certificate of an authority"):
        tls.server_context(folder, "required")


def test_half_of_a_pair_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidArgument):
        tls.client_context(cert=folder / "cert.pem")
    with pytest.raises(InvalidArgument):
        tls.client_context(key=folder / "key.pem")
    with pytest.raises(InvalidArgument):
        tls.server_context(folder, "maybe")  # type: ignore[arg-type]


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("/C=NL/ST=Zuid/L=Delft/O=Port/OU=Buy/OU=EU/CN=app 7", "CN=app 7,OU=EU,OU=Buy,O=Port,L=Delft,ST=Zuid,C=NL"),
        ("/O=Port, Inc/CN=a,O=Other", r"CN=a\,O\=Other,O=Port\, Inc"),
        ("/CN=Zoë", "CN=Zoë"),
        ("/DC=org/DC=example/UID=u1/CN=x", "CN=x,UID=u1,DC=example,DC=org"),
        ("/emailAddress=a@example.org/serialNumber=42/title=T/CN=*", r"CN=\*,T=T,SERIALNUMBER=42,E=a@example.org"),
        ("/O=Port+CN=both", "CN=both,O=Port"),
    ],
)  # fmt: skip
def test_names_are_the_same_from_the_bytes_and_from_the_ssl_module(tmp_path: Path, subject: str, name: str) -> None:
    out = tmp_path / "cert.pem"
    subprocess.run(
        [openssl() or "", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-utf8", "-multivalue-rdn", "-keyout", tmp_path / "key.pem", "-out", out, "-days", "1", "-subj", subject],
        check=True,
        capture_output=True,
    )  # fmt: skip
    certificate = ssl.PEM_cert_to_DER_cert(out.read_text())
    from_module = ssl._ssl._test_decode_cert(str(out))  # type: ignore[attr-defined]
    assert tls.peer_name(certificate) == name
    assert tls.peer_name(from_module) == name


def test_a_certificate_without_a_subject_names_nobody() -> None:
    assert tls.peer_name({}) == ""
    assert tls.peer_name({"subject": ()}) == ""


def test_damaged_bytes_are_a_certificate_or_refused(made: Certificates) -> None:
    whole = ssl.PEM_cert_to_DER_cert((made.of("app1") / "cert.pem").read_text())
    for at in range(len(whole)):
        with contextlib.suppress(CertificateUnusable):
            assert isinstance(tls.peer_name(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]), str)
        with pytest.raises(CertificateUnusable):
            tls.peer_name(whole[:at])
    with pytest.raises(CertificateUnusable):
        tls.peer_name(whole + b"\0")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_refused(content: bytes) -> None:
    for tried in (content, b"\x30" + bytes([min(len(content), 127)]) + content[:127]):
        with contextlib.suppress(der.NoCertificate):
            der.subject(tried)
