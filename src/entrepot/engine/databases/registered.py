# SPDX-License-Identifier: Apache-2.0
"""Databases that an administrator has made known to the queue manager, in `resources.json` of its folder.

    {"SHOP": "postgresql+psycopg://recovery:password@db.example/shop"}

The queue manager itself ends what applications have left there, whether or
not they come back. URLs may have passwords, so the file is private, and no
repr, error or pickle of this module has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from entrepot import checks, private_file
from entrepot.engine.definitions import require_name
from entrepot.errors import ExtraMissing, InvalidArgument, SecurityFileUnusable

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

FILE = "resources.json"


class RegisteredResources:
    """A URL for each name."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._urls: Mapping[str, str] = {}
        self._stamp = private_file.ABSENT

    @classmethod
    def load(cls, folder: Path) -> RegisteredResources:
        """Those of the queue manager in a folder; without a file there are none.

        Raises:
            FileNotPrivate: Others could read the file.
            SecurityFileUnusable: It is no file of resources.
        """
        resources = cls(folder)
        resources.refresh()
        return resources

    def __repr__(self) -> str:
        return f"RegisteredResources({len(self._urls)} in {self._path})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("resources stay in the process that read them")

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._urls))

    def url(self, name: str) -> str:
        return self._urls[name]

    def shown(self, name: str) -> str:
        """A URL without its password, as decisions name it."""
        from entrepot.engine.databases.resource import resource_name

        return resource_name(_parsed(self._urls[name]))

    def add(self, name: str, url: str) -> None:
        """Look after a database from now on; kept by `save`.

        Raises:
            InvalidName, InvalidArgument: Nothing was changed.
        """
        require_name("resource", name)
        _parsed(checks.text("url", url))
        self._urls = {**self._urls, name: url}

    def remove(self, name: str) -> None:
        """Raises InvalidArgument when there is no such resource."""
        if name not in self._urls:
            raise InvalidArgument("resource", f"{checks.shortened(name)} is not known", "one of those listed")
        self._urls = {each: url for each, url in self._urls.items() if each != name}

    def save(self) -> None:
        """Write the file; it is on disk when this returns.

        Raises:
            SecurityFileUnusable: Somebody else changed it since it was read, or the disk did not take it.
        """
        content = msgspec.json.format(msgspec.json.encode(dict(sorted(self._urls.items()))))
        with private_file.alone(self._path, self._stamp):
            self._stamp = private_file.replace(self._path, content + b"\n")

    def refresh(self) -> bool:
        """Read the file again if it has changed; True if it has.

        Raises:
            FileNotPrivate, SecurityFileUnusable: There is no resource until the file is mended.
        """
        if private_file.stamp(self._path) == self._stamp:
            return False
        self._urls = {}
        content, stamp = private_file.read(self._path)
        if stamp != private_file.ABSENT:
            self._urls = _decode(self._path, content)
        self._stamp = stamp
        return True


def _decode(path: Path, content: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except (msgspec.MsgspecError, ValueError):
        # Not even the decoder's own words: they might quote what they stumbled over.
        raise SecurityFileUnusable(str(path), "it is no JSON object of names and URLs") from None


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
