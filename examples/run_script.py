# SPDX-License-Identifier: Apache-2.0
"""An MQSC script from a file, its answers, and the script that would make the same objects again."""

import tempfile
from pathlib import Path

import entrepot

script = Path(__file__).with_name("mqsc_script.mqsc")

with tempfile.TemporaryDirectory() as folder, entrepot.connect(f"embedded:{folder}/qm") as connection:
    for answer in connection.mqsc(script.read_text(), source=script.name):
        print(*answer.lines, sep="\n")

    connection.put("INCOMING", b"10 crates of tea")
    (row,) = connection.mqsc("DISPLAY QLOCAL(ORDERS) CURDEPTH")[0].rows
    print("for programs:", row)
    print(connection.administration.dump())
