# SPDX-License-Identifier: Apache-2.0
"""Throwaway certificates for tests and for a first try of TLS; made with the `openssl` command.

    made = make_certificates(folder, ["server", "app1"])
    tls.server_context(made.of("server"), "required")
    tls.client_context(made.authority, made.of("app1") / "cert.pem", made.of("app1") / "key.pem")

Each name has a folder with cert.pem, key.pem and ca.pem, which is a queue
manager's TLS folder. They are good for localhost and for a few days; the
authority's key lies beside them, so trust them with nothing.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_LOCAL = "subjectAltName=DNS:localhost,DNS:{name},IP:127.0.0.1,IP:::1"


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where they are."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def of(self, name: str) -> Path:
        """The folder with cert.pem, key.pem and ca.pem of a name."""
        return self.folder / name


def openssl() -> str | None:
    """Where the command is, or None on a machine without it."""
    return shutil.which("openssl")


def make_certificates(folder: Path, names: Iterable[str], *, organization: str = "Port", days: int = 7) -> Certificates:
    """An authority of its own, and a certificate CN=name,O=organization of it for each name.

    With `days` of 0 they have expired as soon as they are made.

    Raises:
        FileNotFoundError: There is no openssl command; Debian has it in the package openssl.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Certificates(folder)
    key = folder / "ca-key.pem"
    _run(
        "req", "-x509", *_CURVE, "-keyout", key, "-out", made.authority, "-days", "30",
        "-subj", f"/O={organization}/CN=throwaway authority",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip
    key.chmod(0o600)
    for name in names:
        _make(made, name, organization, days)
    return made


def _make(made: Certificates, name: str, organization: str, days: int) -> None:
    folder = made.of(name)
    folder.mkdir(mode=0o700)
    request, extensions = folder / "request.pem", folder / "extensions"
    extensions.write_text(
        "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        f"extendedKeyUsage=serverAuth,clientAuth\n{_LOCAL.format(name=name)}\n"
    )
    key = folder / "key.pem"
    subject = f"/O={organization}/CN={name}"
    _run("req", "-new", *_CURVE, "-keyout", key, "-out", request, "-subj", subject)
    key.chmod(0o600)
    _run(
        "x509", "-req", "-in", request, "-CA", made.authority, "-CAkey", made.folder / "ca-key.pem",
        "-CAcreateserial", "-out", folder / "cert.pem", "-days", str(days), "-extfile", extensions,
    )  # fmt: skip
    request.unlink()
    extensions.unlink()
    shutil.copyfile(made.authority, folder / "ca.pem")


def _run(*words: str | Path) -> None:
    command = openssl()
    if command is None:
        raise FileNotFoundError("no openssl command; Debian has it in the package openssl")
    finished = subprocess.run([command, *map(str, words)], capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if finished.returncode:
        raise RuntimeError(f"openssl {words[0]} failed: {finished.stderr}")
