# SPDX-License-Identifier: Apache-2.0
"""Encrypted connections: TLS 1.2 or later, forward secrecy, and no key that others can read.

A queue manager's TLS folder (MQ's SSLKEYR) has

    cert.pem   its certificate, and those between it and its authority
    key.pem    the key to it, without a password, mode 600 or 400
    ca.pem     whose certificates of partners are trusted; only wanted when partners show some
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from entrepot import private_file
from entrepot.errors import CertificateUnusable, InvalidArgument
from entrepot.server.security import der
from entrepot.server.security.distinguished_name import Part, render

CERTIFICATE = "cert.pem"
KEY = "key.pem"
AUTHORITY = "ca.pem"

ClientCertificates = Literal["none", "optional", "required"]

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!PSK:!SRP"
"""For TLS 1.2: only ciphers that keep old connections secret when the key is stolen later. 1.3 has no others."""

_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

_OPENSSL_NAMES = {
    "commonName": "CN",
    "serialNumber": "SERIALNUMBER",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "postalCode": "PC",
    "userId": "UID",
    "domainComponent": "DC",
    "emailAddress": "E",
}


def server_context(folder: Path, client_certificates: ClientCertificates = "none") -> ssl.SSLContext:
    """What a listener needs to speak TLS with the certificate of a folder.

    With "optional", a certificate that a client shows is verified, and its
    absence allowed; with "required", the handshake fails without one.

    Raises:
        CertificateUnusable: A file is missing or wrong; the message names it.
        FileNotPrivate: Others could read the key.
    """
    if client_certificates not in _VERIFY:
        raise InvalidArgument("client_certificates", repr(client_certificates), "none, optional or required")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_own(context, folder / CERTIFICATE, folder / KEY)
    if client_certificates != "none":
        _load_authority(context, folder / AUTHORITY)
    context.verify_mode = _VERIFY[client_certificates]
    return context


def client_context(
    ca: Path | None = None, cert: Path | None = None, key: Path | None = None, verify: bool = True
) -> ssl.SSLContext:
    """What a client or a sender channel needs to speak TLS.

    The server must have a certificate of `ca`, or of an authority that the
    machine trusts, for the name by which it was called. Without `verify`
    anyone may answer, and read all; for tests only.

    Raises:
        CertificateUnusable: A file is missing or wrong; the message names it.
        FileNotPrivate: Others could read the key.
        InvalidArgument: A certificate without its key, or a key without its certificate.
    """
    if (cert is None) != (key is None):
        raise InvalidArgument("cert, key", "one without the other", "both files, or neither")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca is not None:
        _load_authority(context, ca)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if cert is not None:
        assert key is not None
        _load_own(context, cert, key)
    return context


def peer_name(certificate: Mapping[str, Any] | bytes) -> str:
    """Whom a certificate names, such as `CN=app1,OU=Orders,O=Port`; empty when it names nobody.

    Takes what `getpeercert` gives, with or without `binary_form`. It is as
    true as the certificate was verified: without that, anybody can write
    one.

    Raises:
        CertificateUnusable: The bytes are no certificate.
    """
    if isinstance(certificate, bytes):
        try:
            groups = der.subject(certificate)
        except der.NoCertificate:
            raise CertificateUnusable("the partner's certificate", "it is none") from None
    else:
        groups = [_named(group) for group in certificate.get("subject", ())]
    # Certificates go from the country down to the name, text the other way.
    return render(part for group in reversed(groups) for part in group)


def _named(group: Any) -> list[Part]:
    return [(_OPENSSL_NAMES.get(name, name.upper()), value) for name, value in group]


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_SINGLE_ECDH_USE
    context.set_ciphers(_CIPHERS)


def _load_own(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _require_present(key)
    # Where certificates are renewed by programs, the name is often a link; what counts is the file behind it.
    private_file.require_private(key.resolve())
    asked: list[Path] = []

    def no_password() -> bytes:
        # Without an answer of ours, OpenSSL would ask for the key's password at the terminal, and wait.
        asked.append(key)
        return b""

    try:
        context.load_cert_chain(certificate, key, password=no_password)
    except ssl.SSLError as error:
        problem = f"{key.name} is protected by a password" if asked else _own_problem(error, key)
        raise CertificateUnusable(str(certificate), problem) from error
    except OSError as error:
        raise CertificateUnusable(str(certificate), private_file.reason(error)) from error


def _own_problem(error: ssl.SSLError, key: Path) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{key.name} is the key to another certificate"
    if error.reason in ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        return "its key or signature is too weak"
    return f"it or {key.name} is no PEM file of its kind ({error.reason or 'unreadable'})"


def _load_authority(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(cafile=authority)
    except ssl.SSLError as error:
        raise CertificateUnusable(str(authority), f"it holds no certificate in PEM form ({error})") from error
    except OSError as error:
        raise CertificateUnusable(str(authority), private_file.reason(error)) from error
    if not context.cert_store_stats()["x509_ca"]:
        raise CertificateUnusable(str(authority), "it holds no certificate of an authority")


def _require_present(file: Path) -> None:
    try:
        file.stat()
    except OSError as error:
        raise CertificateUnusable(str(file), private_file.reason(error)) from error
