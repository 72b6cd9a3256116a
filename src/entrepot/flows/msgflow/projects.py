# SPDX-License-Identifier: Apache-2.0
"""Where the parts of a flow are: projects, the projects that they refer to, and schemas as folders.

A project is a folder with a .project file, which names other projects: folders
beside it, or those that the caller gives. A broker schema is a folder inside of
a project, so shop.orders is shop/orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from entrepot.errors import ModelInvalid
from entrepot.models.mxsd.files import parse_xml

FILES_MAX = 20_000
BYTES_MAX = 64 * 1024 * 1024
PROJECTS_MAX = 500


class Projects:
    """The project of a flow, and all projects in which its parts may be."""

    def __init__(self, home: Path, others: Sequence[Path] = ()) -> None:
        """
        Raises:
            ModelInvalid: A .project file is damaged.
        """
        self.home = home
        self.folders: list[Path] = []
        self.missing: list[str] = []
        given = {_project_name(folder): folder for folder in others}
        waiting = [home, *others]
        while waiting and len(self.folders) < PROJECTS_MAX:
            folder = waiting.pop(0).resolve()
            if folder in self.folders:
                continue
            self.folders.append(folder)
            for name in _references(folder):
                beside = folder.parent / name
                if name in given:
                    waiting.append(given[name])
                elif _is_plain(name) and beside.is_dir():
                    waiting.append(beside)
                elif name not in self.missing:
                    self.missing.append(name)

    def find(self, path: str) -> Path | None:
        """A file by its path within a project; the flow's own project first."""
        for folder in self.folders:
            found = inside(folder, path)
            if found is not None:
                return found
        return None

    def shown(self, path: Path) -> str:
        """A path as it is told: from the project's name on."""
        for folder in self.folders:
            if path.is_relative_to(folder):
                return str(Path(folder.name) / path.relative_to(folder))
        return str(path)

    def schemas(self) -> dict[str, list[Path]]:
        """All ESQL files by their schema, which is their folder."""
        found: dict[str, list[Path]] = {}
        for folder in self.folders:
            for path in _files(folder, ".esql"):
                schema = ".".join(path.parent.relative_to(folder).parts)
                found.setdefault(schema, []).append(path)
        return found

    def models(self) -> Iterator[Path]:
        for folder in self.folders:
            yield from _files(folder, ".mxsd")

    def schema_content(self, near: Path, path: str) -> bytes | None:
        """The schema that a map names: mbsharedlib://Library/a.xsd, /a.xsd from the project, or a path beside it."""
        if "://" in path:
            library, _, rest = path.partition("://")[2].partition("/")
            found = next((inside(each, rest) for each in self.folders if _project_name(each) == library), None)
        elif path.startswith("/"):
            found = self.find(path.lstrip("/"))
        else:
            beside = (near.parent / path).resolve()
            known = any(beside.is_relative_to(folder) for folder in self.folders)
            found = beside if known and beside.is_file() else None
        return None if found is None else read_bytes(found)


def project_of(path: Path, own_path: str) -> Path:
    """The project that a flow lies in: the folder above it with a .project, else what its own path says."""
    path = path.resolve()
    for folder in path.parents:
        if (folder / ".project").is_file():
            return folder
    parts = Path(own_path).parts
    if parts and path.parts[-len(parts) :] == parts:
        return path.parents[len(parts) - 1]
    return path.parent


def inside(folder: Path, path: str) -> Path | None:
    """A file below a folder; None when it is not there, or would lie elsewhere."""
    if not path or "\0" in path:
        return None
    found = (folder / path).resolve()
    return found if found.is_relative_to(folder.resolve()) and found.is_file() else None


def read_bytes(path: Path) -> bytes:
    """
    Raises:
        ModelInvalid: It is too large, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ModelInvalid(str(path), 1, 1, f"it cannot be read: {error.strerror}") from None
    if len(content) > BYTES_MAX:
        raise ModelInvalid(str(path), 1, 1, f"the file is larger than {BYTES_MAX} bytes")
    return content


def _is_plain(name: str) -> bool:
    return bool(name) and "/" not in name and "\\" not in name and name not in (".", "..")


def _project_name(folder: Path) -> str:
    names = _texts(folder, "name")
    return names[0] if names else folder.name


def _references(folder: Path) -> list[str]:
    return _texts(folder, "projects/project")


def _texts(folder: Path, where: str) -> list[str]:
    description = folder / ".project"
    if not description.is_file():
        return []
    root = parse_xml(read_bytes(description), str(description))
    return [(element.text or "").strip() for element in root.iterfind(where)]


def _files(folder: Path, suffix: str) -> Iterator[Path]:
    for count, path in enumerate(sorted(folder.rglob(f"*{suffix}"))):
        if count >= FILES_MAX:
            raise ModelInvalid(str(folder), 1, 1, f"more than {FILES_MAX} {suffix} files")
        if path.is_file():
            yield path
