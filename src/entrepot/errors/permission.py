# SPDX-License-Identifier: Apache-2.0
"""Permission denied, or identity not proven."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class SecurityError(EntrepotError):
    code = "P00"


class NotAuthorized(SecurityError):
    user: str
    object: str
    authority: str
    code = "P01"
    reason = 2035
    # The same words whether or not there is such an object: a user without authority must not learn that.
    text = "{user} has no {authority} authority for {object}"
    hint = "An administrator can give it with SET AUTHREC."


class InternalQueue(SecurityError):
    queue: str
    code = "P09"
    reason = 2035
    text = "only the queue manager itself puts to {queue}"
    hint = "Name another queue: what lies on this one is believed after a restart, or starts programs."


class AuthenticationFailed(SecurityError):
    code = "P02"
    reason = 2035
    # No field and one text: an unknown user, a wrong password and a rule must not be told apart from outside.
    text = "the connection was not accepted"
    hint = "Check user, password, certificate and channel; the queue manager's audit log has the cause."


class FileNotPrivate(SecurityError):
    file: str
    problem: str
    code = "P03"
    text = "{file} is not private: {problem}"
    hint = "Make it a regular file of the user that runs the queue manager, and for no other user (chmod 600)."


class CertificateUnusable(SecurityError):
    file: str
    problem: str
    code = "P04"
    text = "{file} cannot be used for TLS: {problem}"
    hint = "TLS needs PEM files: cert.pem with the certificate, key.pem with its key and no password, ca.pem to trust."


class AuditFailed(SecurityError):
    file: str
    problem: str
    code = "P05"
    retryable = True
    text = "the audit log {file} cannot be written: {problem}"
    hint = "Free disk space or mend the disk; until then administration is refused, as it could not be recorded."


class AuditDamaged(SecurityError):
    file: str
    line: int
    problem: str
    code = "P06"
    text = "{file}, line {line}: {problem}"
    hint = "The audit log is not what was written. Keep its files as evidence and move them away; a new one begins."


class AddressBlocked(SecurityError):
    address: str
    code = "P07"
    reason = 2035
    text = "connections from {address} are not accepted"
    hint = "An administrator can lift it with SET CHLAUTH."


class SecurityFileUnusable(SecurityError):
    file: str
    problem: str
    code = "P08"
    text = "{file} cannot be used: {problem}"
    hint = "Nothing was changed. Mend the file or put back a copy of it; without it no user has a password."
