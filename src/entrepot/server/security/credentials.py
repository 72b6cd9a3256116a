# SPDX-License-Identifier: Apache-2.0
"""The passwords that our own channels present at the other end, in `credentials.json` of the folder.

    {"QM1.TO.QM2": "the password of REMOTEUSER at QM2"}

They cannot be hashed, since the other end wants to see them. So the file
is private, and no repr, error, dump or pickle of this module has them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from entrepot import checks, private_file
from entrepot.engine.definitions import require_name
from entrepot.errors import InvalidArgument, SecurityFileUnusable
from entrepot.server.security import passwords

FILE = "credentials.json"


class Credentials:
    """A password for each channel that needs one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._passwords: Mapping[str, str] = {}
        self._stamp = private_file.ABSENT
        self._lock = threading.Lock()

    @classmethod
    def load(cls, folder: Path) -> Credentials:
        """Those of the queue manager in a folder; without a file there are none.

        Raises:
            FileNotPrivate: Others could read the file.
            SecurityFileUnusable: It is no file of credentials.
        """
        credentials = cls(folder)
        credentials.refresh()
        return credentials

    def __repr__(self) -> str:
        return f"Credentials({len(self._passwords)} in {self._path})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials stay in the process that read them")

    def channels(self) -> tuple[str, ...]:
        return tuple(sorted(self._passwords))

    def password_for(self, channel: str) -> str | None:
        return self._passwords.get(channel)

    def set_password(self, channel: str, password: str) -> None:
        """Present this password from now on; kept by `save`.

        Raises:
            InvalidName: No channel can be called that.
            InvalidArgument: The password is blank or too long.
        """
        require_name("channel", channel)
        checks.text("password", password)
        if not passwords.is_usable(password):
            raise InvalidArgument("password", "it is blank or has a NUL", passwords.USABLE)
        with self._lock:
            self._passwords = {**self._passwords, channel: password}

    def remove(self, channel: str) -> None:
        """Raises InvalidArgument when the channel has no password here."""
        with self._lock:
            if channel not in self._passwords:
                raise InvalidArgument("channel", f"{checks.shortened(channel)} has no password", "one of those listed")
            self._passwords = {name: kept for name, kept in self._passwords.items() if name != channel}

    def save(self) -> None:
        """Write the file; it is on disk when this returns.

        Raises:
            SecurityFileUnusable: Somebody else changed it since it was read, or the disk did not take it. The
                file is as it was.
        """
        with self._lock:
            content = msgspec.json.format(msgspec.json.encode(dict(sorted(self._passwords.items()))))
            with private_file.alone(self._path, self._stamp):
                self._stamp = private_file.replace(self._path, content + b"\n")

    def refresh(self) -> bool:
        """Read the file again if it has changed; True if it has.

        Raises:
            FileNotPrivate, SecurityFileUnusable: No channel has a password until the file is mended.
        """
        with self._lock:
            try:
                if private_file.stamp(self._path) == self._stamp:
                    return False
                content, stamp = private_file.read(self._path)
                self._passwords = _decode(self._path, content) if stamp != private_file.ABSENT else {}
            except Exception:
                self._passwords = {}
                self._stamp = private_file.ABSENT
                raise
            self._stamp = stamp
        return True


def _decode(path: Path, content: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except (msgspec.MsgspecError, ValueError):
        # Not even the decoder's own words: they might quote what they stumbled over.
        raise SecurityFileUnusable(str(path), "it is no JSON object of channel names and passwords") from None
