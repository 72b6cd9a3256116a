# SPDX-License-Identifier: Apache-2.0
"""`entrepot dump`: a queue manager's objects as an MQSC script."""

from __future__ import annotations

import sys

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Reachable


def dump(path: Reachable, json: Json = False) -> None:
    """Write an MQSC script that makes the same objects again."""
    with opening.connected(path) as connection:
        script = connection.administration.dump()
    if json:
        output.print_json({"script": script})
    else:
        sys.stdout.write(script)
