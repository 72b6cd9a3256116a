# SPDX-License-Identifier: Apache-2.0
"""Marks that a process and all that it starts leave where they have been: a byte for each block of the mutated rooms.

The bytes lie in a mapped file, so what a killed process reached is known,
too. Each block begins with `__reached__[number] = 1`, which costs next to
nothing.
"""

import ast
import contextlib
import importlib.machinery
import json
import marshal
import mmap
import os
import sys
from pathlib import Path

marks = None
"""Of this process, its parents and its children; None where nothing is marked."""


def blocks(tree):
    """The lists of statements in functions, always in the same order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _blocks_of(node)


def _blocks_of(function):
    todo = [function]
    while todo:
        node = todo.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, name, None)
            if isinstance(inside, list) and inside:
                if isinstance(inside[0], ast.stmt):
                    yield inside
                todo += [each for each in inside if not isinstance(each, _SCOPES)]


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def marked(source, path, first):
    """The module's code, with a mark at the beginning of each block; the first has the number `first`."""
    tree = ast.parse(source)
    for number, block in enumerate(list(blocks(tree)), first):
        mark = ast.parse(f"__reached__[{number}] = 1").body[0]
        for node in ast.walk(mark):
            ast.copy_location(node, block[0])
        # A docstring stays first.
        is_doc = isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
        block.insert(1 if is_doc else 0, mark)
    return compile(tree, path, "exec")


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name, path, first, folder):
        super().__init__(name, path)
        self._first = first
        self._kept = Path(folder) / f"{name}.code"

    def get_code(self, fullname):
        with contextlib.suppress(FileNotFoundError):
            return marshal.loads(self._kept.read_bytes())  # noqa: S302 - written below
        code = marked(self.get_data(self.path), self.path, self._first)
        new = self._kept.with_suffix(f".{os.getpid()}")
        new.write_bytes(marshal.dumps(code))
        new.replace(self._kept)
        return code

    def exec_module(self, module):
        module.__reached__ = marks
        super().exec_module(module)


class _Finder:
    def __init__(self, folder, table):
        self._folder = folder
        self._table = table

    def find_spec(self, name, path=None, target=None):
        if name not in self._table:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = _Loader(name, spec.origin, self._table[name], self._folder)
        return spec


def install(folder):
    """Mark from now on; `folder` has the number of each module's first block."""
    global marks
    table = json.loads((Path(folder) / "table.json").read_text())
    path = os.environ.setdefault("MUTANT_MARKS_FILE", f"{folder}/marks-{os.getpid()}")
    with open(path, "ab+") as file:
        if file.tell() == 0:
            file.truncate(table["blocks"])
        marks = mmap.mmap(file.fileno(), table["blocks"])
    sys.meta_path.insert(0, _Finder(folder, table["first"]))
