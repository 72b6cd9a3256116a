# SPDX-License-Identifier: Apache-2.0
"""The route: message flows as graphs of nodes, and the kernels that they are compiled to.

definition   a flow as it was written: nodes, links, what travels with them
notation     our YAML; msgflow/ imports IBM's files, maps/ their mappings
subflows     subflows put in their places
checking     everything that is wrong with a flow, before it runs
drawing      a flow as a tree for the terminal, and as SVG
nodes/       one class a node type
kernel       a flow compiled; journey is one message's way through it
outside      what nodes may ask of the world; rehearsal is a world in memory
statistics   who has had how many messages, and what they took

A flow knows neither queues nor Spark: `entrepot.spark` joins the two.
"""

from __future__ import annotations
