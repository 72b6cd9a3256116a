# SPDX-License-Identifier: Apache-2.0
"""Lets a process and all that it starts import one module from another file, the mutant; or mark what it reaches.

Python imports a module of this name before anything else when its folder is
on PYTHONPATH. So the tree itself never changes, and trials run beside each
other.
"""

import importlib.machinery
import importlib.util
import os
import sys


class _Mutant:
    def __init__(self, name, path):
        self._name = name
        self._path = path

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        original = importlib.machinery.PathFinder.find_spec(name, path)
        loader = importlib.machinery.SourceFileLoader(name, self._path)
        spec = importlib.util.spec_from_file_location(
            name, self._path, loader=loader, submodule_search_locations=original.submodule_search_locations
        )
        # Modules find their files and neighbours by this.
        spec.origin = original.origin
        return spec


_mutant = os.environ.get("ENTREPOT_MUTANT")
if _mutant:
    sys.meta_path.insert(0, _Mutant(*_mutant.split("=", 1)))
_marks = os.environ.get("MUTANT_MARKS")
if _marks:
    import mutant_marks

    mutant_marks.install(_marks)
