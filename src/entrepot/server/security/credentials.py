# SPDX-License-Identifier: Apache-2.0
"""The passwords that our own channels present at the other end, in `credentials.json` of the folder.

    {"QM1.TO.QM2": "the password of REMOTEUSER at QM2"}

They cannot be hashed, since the other end wants to see them. So the file
is private, and no repr, error, dump or pickle of this module has them.
"""

from __future__ import annotations

from entrepot import checks
from entrepot.engine.definitions import require_name
from entrepot.errors import InvalidArgument
from entrepot.private_file import SecretTexts
from entrepot.server.security import passwords

FILE = "credentials.json"


class Credentials(SecretTexts):
    """A password for each channel that needs one."""

    FILE = FILE
    CONTENT = "channel names and passwords"

    def channels(self) -> tuple[str, ...]:
        return self.names()

    def password_for(self, channel: str) -> str | None:
        return self.get(channel)

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
        self.set(channel, password)

    def remove(self, channel: str) -> None:
        """Raises InvalidArgument when the channel has no password here."""
        if not self.drop(channel):
            raise InvalidArgument("channel", f"{checks.shortened(channel)} has no password", "one of those listed")
