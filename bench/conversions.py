# SPDX-License-Identifier: Apache-2.0
"""Message conversion as the broker document measured it: generic XML, CWF, MRM XML and TDS, each to each; and SWIFT.

The same 31 fields in all formats, 4 KB. A Compute node sets every field of
the output from the field of the input, one statement each, and says the
output's format in Properties. Bytes in, bytes out, one process.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import broker_messages
from compute import turns
from entrepot.esql.program import EsqlModule, compile_statements
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.collecting import collect_seldom
from entrepot.models.logical import MessageFormat, MessageSet
from entrepot.models.message_sets import find_set, register_set
from entrepot.models.mrm import MRM
from entrepot.models.notation import read_notation
from entrepot.models.tree import Element
from figures import MEMORY_ONLY, Figure, Outcome, at_least

FORMATS = ("XML", "CWF1", "XML1", "TDS1")
NAMES = {"XML": "generic XML", "CWF1": "CWF", "XML1": "MRM XML", "TDS1": "TDS"}
SIZE = 4096
SET, MESSAGE = "broker", "CSIM"


def model() -> MessageSet:
    """The 30 fields and the padding, once, and how three formats write them."""
    kinds = {str: "string(12)", float: "float", int: "integer"}
    elements = "".join(
        f"    - {name}: {kinds[type(value)]}\n      tds: {{tag: {name}}}\n" for name, value in broker_messages.fields()
    )
    return read_notation(
        f"""set: {SET}
formats:
  CWF1: cwf
  TDS1: {{kind: tds, separation: tagged delimited, delimiter: "|", tag_separator: "="}}
  XML1: xml
messages:
  {MESSAGE}:
{elements}    - Padding: string({SIZE - 10 * 12 - 10 * 8 - 10 * 4})
      tds: {{tag: Padding}}
""",
        "broker.yaml",
    )


def program(source: str, target: str) -> EsqlModule:
    """A statement for every field, as a Compute node would have it."""
    lines = ["SET OutputRoot.Properties = InputRoot.Properties;"]
    below = "XML.CSIM" if target == "XML" else "MRM"
    above = "XML.CSIM" if source == "XML" else "MRM"
    if target != "XML":
        lines.append(f"SET OutputRoot.Properties.MessageSet = '{SET}';")
        lines.append(f"SET OutputRoot.Properties.MessageType = '{MESSAGE}';")
        lines.append(f"SET OutputRoot.Properties.MessageFormat = '{target}';")
    for name, value in [*broker_messages.fields(), ("Padding", "")]:
        read = f"InputRoot.{above}.{name}"
        if source == "XML" and target != "XML" and not isinstance(value, str):
            read = f"CAST({read} AS {'FLOAT' if isinstance(value, float) else 'INTEGER'})"
        lines.append(f"SET OutputRoot.{below}.{name} = {read};")
    return compile_statements("\n".join(lines), f"{source}-{target}.esql")


def convert(module: EsqlModule, options: dict[str, str], body: bytes) -> bytes:
    assembly = parse_message(Message(body), **options)
    return render_message(module.compute(assembly)[0][1].root).body


def bodies(message_set: MessageSet) -> dict[str, bytes]:
    """The same message in every format, about 4 KB each."""
    message = Element("message")
    padding = SIZE - 10 * 12 - 10 * 8 - 10 * 4
    message.fill([Element(name, value) for name, value in broker_messages.fields()])
    message.append(Element("Padding", ""))
    found = {"XML": broker_messages.flat(SIZE)}
    for name in FORMATS[1:]:
        codec = MRM.codec(MessageFormat(message_set, MESSAGE, name))
        message.children[-1].value = ""
        empty = len(codec.render(message, 1208, 546))
        message.children[-1].value = "x" * (padding if name == "CWF1" else SIZE - empty)
        found[name] = codec.render(message, 1208, 546)
    return found


def works() -> dict[str, Callable[[], bytes]]:
    message_set = register_set(model())
    found = bodies(message_set)
    options = {
        name: {"domain": "XML"}
        if name == "XML"
        else {"domain": "MRM", "message_set": SET, "message_type": MESSAGE, "message_format": name}
        for name in FORMATS
    }
    return {
        f"{NAMES[source]} to {NAMES[target]}": partial(convert, program(source, target), options[source], found[source])
        for source in FORMATS
        for target in FORMATS
    }


def swift() -> Callable[[], bytes]:
    """An MT543 of 6,449 bytes: parsed, one field changed, rendered."""
    # The messages that the tests of the SWIFT models use.
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "golden" / "models"))
    mt543 = importlib.import_module("swift_messages").mt543
    find_set("SWIFT")
    body: bytes = mt543(6449)
    assert len(body) == 6449
    module = compile_statements(
        "SET OutputRoot = InputRoot; SET OutputRoot.MRM.Block1.SessionNumber = '4321';", "swift.esql"
    )
    options = {"domain": "MRM", "message_set": "SWIFT", "message_type": "MT543", "message_format": "TDS1"}
    return partial(convert, module, options, body)


def measure(*, quick: bool = False) -> Outcome:
    collect_seldom()
    wanted = {f"{name}, 4 KB msg/s": (work, 2_000) for name, work in works().items()}
    wanted["SWIFT MT543 of 6,449 bytes msg/s"] = (swift(), 1_000)
    found = turns([work for work, _ in wanted.values()], quick)
    figures = [
        Figure(name, [1 / turn[number] for turn in found], MEMORY_ONLY, at_least(least))
        for number, (name, (_, least)) in enumerate(wanted.items())
    ]
    return Outcome("conversions", "message conversion through a Compute node, bytes in memory", figures)
