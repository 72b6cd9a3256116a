# SPDX-License-Identifier: Apache-2.0
"""Databases that an administrator has made known to the queue manager, in `resources.json` of its folder.

    {"SHOP": "postgresql+psycopg://recovery:password@db.example/shop"}

The queue manager itself ends what applications have left there, whether or
not they come back. URLs may have passwords, so the file is private, and no
repr, error or pickle of this module has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot import checks
from entrepot.engine.definitions import require_name
from entrepot.errors import ExtraMissing, InvalidArgument
from entrepot.private_file import SecretTexts

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

FILE = "resources.json"


class RegisteredResources(SecretTexts):
    """A URL for each name."""

    FILE = FILE
    CONTENT = "names and URLs"

    def url(self, name: str) -> str:
        url = self.get(name)
        if url is None:
            raise KeyError(name)
        return url

    def shown(self, name: str) -> str:
        """A URL without its password, as decisions name it."""
        from entrepot.engine.databases.resource import resource_name

        return resource_name(_parsed(self.url(name)))

    def add(self, name: str, url: str) -> None:
        """Look after a database from now on; kept by `save`.

        Raises:
            InvalidName, InvalidArgument: Nothing was changed.
        """
        require_name("resource", name)
        _parsed(checks.text("url", url))
        self.set(name, url)

    def remove(self, name: str) -> None:
        """Raises InvalidArgument when there is no such resource."""
        if not self.drop(name):
            raise InvalidArgument("resource", f"{checks.shortened(name)} is not known", "one of those listed")


def _parsed(url: str) -> URL:
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError as error:
        raise ExtraMissing("a database as a resource", "sql") from error
    try:
        return make_url(url)
    except ArgumentError:
        raise InvalidArgument("url", "SQLAlchemy cannot read it", "postgresql+psycopg://user@host/database") from None
