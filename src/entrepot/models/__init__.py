# SPDX-License-Identifier: Apache-2.0
"""What the bytes of a message mean: one logical tree over all formats.

tree           elements, folders that parse on demand, the message assembly above them
element_types  the kinds of elements that each domain knows (attribute, CDATA, array ...)
domains        which parser and renderer stands behind a folder's name
assembling     a message of the queue manager to these trees and back; headers/ are MQ's own
xml/, soap, json, blob, mime        self-defining domains
logical        the model of a message set; notation/, copybook/ and mxsd/ read one
mrm            the domain of modelled messages; cwf/, tds/ and mrm_xml/ are its physical formats
swift/         SWIFT's messages as TDS models
collecting     how often Python collects trees that are not used any more
"""

from __future__ import annotations

from entrepot.models.assembling import parse_message, render_message
from entrepot.models.collecting import collect_seldom
from entrepot.models.logical import MessageFormat, MessageSet
from entrepot.models.message_sets import find_set, load_set, register_set
from entrepot.models.mrm import MRM
from entrepot.models.tree import Assembly, Element, Folder, Root

DOORS = (
    "assembling",
    "code_pages",
    "cwf",
    "cwf.cells",
    "cwf.columns",
    "dates.patterns",
    "domains",
    "element_types",
    "headers.chain",
    "headers.mqrfh2",
    "headers.origin",
    "logical",
    "message_sets",
    "mrm",
    "mxsd.files",
    "notation",
    "outgoing",
    "tds.mnemonics",
    "tree",
    "tree_json",
    "tree_state",
    "value_text",
    "values",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""

__all__ = [
    "MRM",
    "Assembly",
    "Element",
    "Folder",
    "MessageFormat",
    "MessageSet",
    "Root",
    "collect_seldom",
    "find_set",
    "load_set",
    "parse_message",
    "register_set",
    "render_message",
]
