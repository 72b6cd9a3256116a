# SPDX-License-Identifier: Apache-2.0
"""Maps: a new message from the elements of another, said as a table and compiled to ESQL.

notation    our tables: copy, set, foreach, if
models      what a message set knows about the target: its leaves and their types
gdm         IBM's .map files, translated to these tables
"""

from __future__ import annotations

from entrepot.flows.maps.gdm import MapFile, read_map
from entrepot.flows.maps.notation import MapText, Target, write_map

__all__ = ["MapFile", "MapText", "Target", "read_map", "write_map"]
