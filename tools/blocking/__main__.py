# SPDX-License-Identifier: Apache-2.0
"""Make src/entrepot/client/blocking from src/entrepot/client/aio.

    PYTHONPATH=tools python -m blocking            write what has changed
    PYTHONPATH=tools python -m blocking --check    say what would change, and fail if anything would

Only words are replaced: `async` and `await` go, and the names of
asynchronous protocols become those of their blocking twins. What differs
beyond that, lines and primitives, is written by hand in both folders.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "entrepot" / "client" / "aio"
TARGET = ROOT / "src" / "entrepot" / "client" / "blocking"
BY_HAND = (
    "__init__.py",
    "embedded_transport.py",
    "keep_alive.py",
    "async_transport.py",
    "blocking_transport.py",
    "primitives.py",
    "blocking_reply.py",
)
HEAD = "# Generated from entrepot/client/aio/{name} by tools/blocking: change that one.\n"
NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "AsyncIterator": "Iterator",
    "AsyncTransport": "BlockingTransport",
    "StopAsyncIteration": "StopIteration",
    "aio": "blocking",
    "async_transport": "blocking_transport",
}
FIRST_PARTY = "lint.isort.known-first-party=['entrepot']"
_AWAITABLE = re.compile(r"Awaitable\[([\w.]+)\]")


def blocking(source: str) -> str:
    """The same module without coroutines."""
    lines = source.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        if token.type != tokenize.NAME or (token.string not in NAMES and token.string not in ("async", "await")):
            continue
        (row, begin), (_, end) = token.start, token.end
        line = lines[row - 1]
        rest = line[end:] if token.string in NAMES else line[end:].lstrip(" ")
        lines[row - 1] = line[:begin] + NAMES.get(token.string, "") + rest
    return _AWAITABLE.sub(r"\1", "".join(lines))


def generated() -> dict[str, str]:
    """All generated modules by their names, formatted."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [path.name for path in sorted(SOURCE.glob("*.py")) if path.name not in BY_HAND]
        for name in names:
            licence, _, rest = blocking((SOURCE / name).read_text()).partition("\n")
            (folder / name).write_text(f"{licence}\n{HEAD.format(name=name)}{rest}")
        ruff = [sys.executable, "-m", "ruff"]
        configuration = ["--config", str(ROOT / "pyproject.toml"), "--config", FIRST_PARTY, "--no-cache", "-q"]
        subprocess.run([*ruff, "check", "--fix", "--select", "F401,I", *configuration, "."], cwd=folder, check=False)  # noqa: S603
        subprocess.run([*ruff, "format", *configuration, "."], cwd=folder, check=True)  # noqa: S603
        return {name: (folder / name).read_text() for name in names}


def main() -> int:
    changed = 0
    for name, text in generated().items():
        target = TARGET / name
        if target.exists() and target.read_text() == text:
            continue
        changed += 1
        if "--check" in sys.argv:
            print(f"{target.relative_to(ROOT)} is not what {SOURCE.relative_to(ROOT) / name} makes: run `make fix`")
        else:
            target.write_text(text)
            print(target.relative_to(ROOT))
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
