# SPDX-License-Identifier: Apache-2.0
"""Python nodes whose functions do what no function should: each is one message's failure, and the flow goes on."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import FlowInvalid
from entrepot.esql.user_functions import watching_interrupts
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.kernel import Kernel
from entrepot.models.tree import Assembly

from .drawn import Stage, drawn, node, reads, writes

LIMITED = QueueFacts(threshold=3, backout_queue="IN.BACKOUT")
SOON_S = 0.05


class _Unspeakable(Exception):
    """Nothing can be asked of it."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__

    @property
    def number(self) -> int:
        raise SystemExit(1)

    inserts = severity = place = number

    def __reduce__(self) -> Any:
        raise SystemExit(1)


class _HalfPair(Exception):
    def __str__(self) -> str:
        return "half a pair: \ud800" + "x" * 10_000_000


class _Value(str):
    """A value of a tree that ends the process of whoever writes it down."""

    def __str__(self) -> str:
        raise SystemExit(1)

    __format__ = __repr__ = encode = replace = translate = isascii = strip = __str__  # type: ignore[assignment]


def _fails(assembly: Assembly, send: Any) -> Assembly | None:
    match assembly.root.get("XMLNSC", "order", "id"):
        case "interrupt":
            raise KeyboardInterrupt
        case "generator":
            raise GeneratorExit
        case "base":
            raise BaseException("base")
        case "unspeakable":
            raise _Unspeakable
        case "half":
            raise _HalfPair
        case "memory":
            raise MemoryError
        case "loop":
            while True:
                pass
        case "value":
            assembly.root.first("XMLNSC").first("order").add("evil", _Value("x"))  # type: ignore[union-attr]
    return assembly


BAD = ("interrupt", "generator", "base", "unspeakable", "half", "memory", "loop", "value")


def order(number: object) -> str:
    return f"<order><id>{number}</id></order>"


def test_whatever_a_function_raises_its_message_is_set_aside_and_the_others_come_out() -> None:
    flow = drawn("In -> X -> Out", In=reads(), X=node("Python", function=_fails, timeout_s=SOON_S), Out=writes())
    stage = Stage(flow, facts=LIMITED)
    with watching_interrupts():
        for number, bad in enumerate(BAD):
            stage.feed(order(bad), persistent=True)
            stage.feed(order(number), persistent=True)
    assert stage.on("OUT") == [order(number).encode() for number in range(len(BAD))]
    set_aside = stage.world.queues["IN.BACKOUT"]
    assert [message.body.decode() for message in set_aside] == [order(bad) for bad in BAD]
    told = [str(message.properties["entrepot_error"]) for message in set_aside]
    assert told[0] == "_fails wanted to raise KeyboardInterrupt"
    assert told[3] == "_Unspeakable"
    assert told[4].startswith("half a pair: \\ud800xxx")
    assert told[6] == "_fails did not return within 0.05 s, and was interrupted"
    assert stage.kernel.statistics.failed == 3 * len(BAD), "each as often as its queue says"


def test_the_failure_terminal_has_what_a_function_was_stopped_for() -> None:
    says = "SET OutputRoot.XMLNSC.said = InputExceptionList.*[1].*[<].Text;"
    flow = drawn(
        "In -> X -> Out",
        "X.failure -> Say -> Bad",
        In=reads(),
        X=node("Python", function=_fails, timeout_s=SOON_S),
        Out=writes(),
        Say=node("Compute", statements=says),
        Bad=writes("BAD"),
    )
    stage = Stage(flow)
    with watching_interrupts():
        for bad in ("interrupt", "unspeakable", "loop"):
            stage.feed(order(bad))
    texts = ("wanted to raise KeyboardInterrupt", "_Unspeakable", "did not return within")
    assert all(text in body.decode() for text, body in zip(texts, stage.on("BAD"), strict=True))


def test_a_message_that_is_sent_too_late_or_by_another_thread_is_refused_and_not_lost() -> None:
    kept: list[Any] = []
    errors: list[Exception] = []

    def keeps(assembly: Assembly, send: Any) -> Assembly:
        def work() -> None:
            try:
                send("out", assembly)
            except RuntimeError as error:
                errors.append(error)

        kept.append(lambda: send("out", assembly))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return assembly

    stage = Stage(drawn("In -> X -> Out", In=reads(), X=node("Python", function=keeps), Out=writes()))
    stage.feed(order(1))
    with pytest.raises(RuntimeError, match="had returned already"):
        kept[0]()
    assert "another thread" in str(errors[0])
    assert stage.on("OUT") == [order(1).encode()]


def test_nodes_behind_send_are_not_cut_short() -> None:
    def sends(assembly: Assembly, send: Any) -> None:
        send("out", assembly)

    def slow(assembly: Assembly, send: Any) -> Assembly:
        time.sleep(3 * SOON_S)
        return assembly

    flow = drawn(
        "In -> X -> Y -> Out",
        In=reads(),
        X=node("Python", function=sends, timeout_s=SOON_S),
        Y=node("Python", function=slow),
        Out=writes(),
    )
    stage = Stage(flow)
    stage.feed(order(1))
    assert stage.on("OUT") == [order(1).encode()]


@pytest.mark.parametrize("text", ["raise SystemExit(3)", "raise KeyboardInterrupt", "1 / 0", "import no_such_module"])
def test_a_module_that_cannot_be_imported_is_a_mistake_of_the_flow(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_that_fails.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop_that_fails", raising=False)
    with watching_interrupts(), pytest.raises(FlowInvalid, match="shop_that_fails:price"):
        Kernel(drawn("In -> X", In=reads(), X=node("Python", function="shop_that_fails:price")))
