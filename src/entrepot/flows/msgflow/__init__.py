# SPDX-License-Identifier: Apache-2.0
"""IBM's message flows: .msgflow and .subflow files with the projects around them.

xmi          one file, as it is: nodes, connections, properties, promotions
projects     where things are: projects, what they refer to, schemas as folders
translation  a node of a file to one of ours
loading      a flow with its subflows, ESQL, maps and message sets

What cannot be translated is told all at once, by file and line.
"""

from __future__ import annotations

from entrepot.flows.msgflow.loading import load_msgflow

__all__ = ["load_msgflow"]
