# SPDX-License-Identifier: Apache-2.0
"""Every file in examples/ runs and says what it promises; one without an entry here fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 50

SAYS = {
    "async_consumer.py": ["100 invoices, for instance: invoice for "],
    "many_committers.py": ["320 orders, each on disk"],
    "copybook_to_xml.py": ["amount 123.45 and 2 lines", "<ARTICLE>TEA</ARTICLE>", "byte for byte: True"],
    "flow_test.py": [
        "tea: Orders.out → Price.out → Large.false → Done",
        "ship: <order><article>ship</article><pieces>1</pieces></order>",
    ],
    "groups_and_selectors.py": ["all of it, in sequence: ['hull', 'mast', 'sail']", "SelectorSyntaxError [Q21 2459]"],
    "invoice_statement.py": ['out: <statements><statement name="Braun"><total>29.00</total></statement></statements>'],
    "orders.py": ["backed out: nonsense, after 1 earlier attempts", "invoice: 300 euros", "refused: nonsense"],
    "price_ticker.py": ["the newest prices, then the news", "the desk has tea above 100, the auditor all rope"],
    "request_reply.py": ["cloves: 60 euros", "served: 3"],
    "run_script.py": ["Local queue ORDERS defined.", "'CURDEPTH': 1", "DEFINE QALIAS(INCOMING)"],
    "workers.py": ["30 crates cost 360 euros", "answered: 30"],
}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_runs_and_says_what_it_promises(name: str, tmp_path: Path) -> None:
    assert name in SAYS, f"say in SAYS what {name} prints"
    finished = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert [words for words in SAYS[name] if words not in finished.stdout] == [], finished.stdout
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind"


def test_scripts_are_run_by_an_example() -> None:
    programs = "".join(path.read_text() for path in EXAMPLES.glob("*.py"))
    assert [path.name for path in EXAMPLES.glob("*.mqsc") if path.name not in programs] == []


def test_examples_stay_short() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.iterdir() if path.is_file()}
    assert {name: count for name, count in lines.items() if count >= LINES_MAX} == {}
