# SPDX-License-Identifier: Apache-2.0
"""Message conversion as the broker document measured it: generic XML, CWF, MRM XML and TDS, each to each; and SWIFT.

The same 31 fields in all formats, 4 KB. A Compute node sets every field of
the output from the field of the input, one statement each, and says the
output's format in Properties. Bytes in, bytes out, one process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from compute import turns
from entrepot.esql.program import EsqlModule, compile_statements
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.collecting import collect_seldom
from entrepot.models.message_sets import find_set
from entrepot.workbench.broker.messages import MESSAGE, SET, fields, formats
from entrepot.workbench.broker.mt543 import mt543
from figures import MEMORY_ONLY, Figure, Outcome, at_least

FORMATS = ("XML", "CWF1", "XML1", "TDS1")
NAMES = {"XML": "generic XML", "CWF1": "CWF", "XML1": "MRM XML", "TDS1": "TDS"}
SIZE = 4096


def program(source: str, target: str) -> EsqlModule:
    """A statement for every field, as a Compute node would have it."""
    lines = ["SET OutputRoot.Properties = InputRoot.Properties;"]
    below = "XML.CSIM" if target == "XML" else "MRM"
    above = "XML.CSIM" if source == "XML" else "MRM"
    if target != "XML":
        lines.append(f"SET OutputRoot.Properties.MessageSet = '{SET}';")
        lines.append(f"SET OutputRoot.Properties.MessageType = '{MESSAGE}';")
        lines.append(f"SET OutputRoot.Properties.MessageFormat = '{target}';")
    for name, value in [*fields(), ("Padding", "")]:
        read = f"InputRoot.{above}.{name}"
        if source == "XML" and target != "XML" and not isinstance(value, str):
            read = f"CAST({read} AS {'FLOAT' if isinstance(value, float) else 'INTEGER'})"
        lines.append(f"SET OutputRoot.{below}.{name} = {read};")
    return compile_statements("\n".join(lines), f"{source}-{target}.esql")


def convert(module: EsqlModule, options: dict[str, str], body: bytes) -> bytes:
    assembly = parse_message(Message(body), **options)
    return render_message(module.compute(assembly)[0][1].root).body


def works() -> dict[str, Callable[[], bytes]]:
    found = formats(SIZE)
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
    find_set("SWIFT")
    body = mt543(6449)
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
