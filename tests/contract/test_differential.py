# SPDX-License-Identifier: Apache-2.0
"""One list of scenarios through every binding, blocking and asyncio: a program notices no difference.

What embedded and blocking does is the measure. `differential/scenarios.py` has the list; a verb without a scenario, or
one that asyncio has got since, fails here.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import entrepot.aio
from conftest import TESTER, folder_in_memory
from entrepot import Connection, Delivery, Message, Subscription, UnitOfWork
from entrepot.aio import Connection as AioConnection
from entrepot.aio import Consumption as AioConsumption
from entrepot.aio import Delivery as AioDelivery
from entrepot.aio import Pipeline as AioPipeline
from entrepot.aio import Reader as AioReader
from entrepot.aio import Subscription as AioSubscription
from entrepot.aio import UnitOfWork as AioUnitOfWork
from entrepot.client.blocking import Consumption, Pipeline, Reader, connect
from entrepot.testing.certificates import make_certificates, openssl
from entrepot.testing.servers import ServerThread

from .differential.scenarios import SCENARIOS
from .differential.stages import VERBS_USED, Blocking, Stage, told

NOT_VERBS = {"fetch", "give_back", "is_near", "left", "local", "open_incoming", "opened", "queue", "trouble"}
"""What other modules of ours ask of these objects."""
ELSEWHERE = {("Connection", "global_unit_of_work")}
"""Needs databases: tests/global_units."""

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def urls(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One queue manager for the embedded binding, and one server for all others."""
    with folder_in_memory() as parent:
        inside = Path(shutil.copytree(template, Path(parent) / "inside" / "QM1"))
        served = Path(shutil.copytree(template, Path(parent) / "served" / "QM1"))
        found = {"embedded": f"embedded:{inside}", "unix": f"unix:{served}"}
        if openssl() is not None:
            certificates = make_certificates(tmp_path_factory.mktemp("tls"), ["server"]).of("server")
            with connect(f"embedded:{served}") as connection:
                connection.mqsc(f"ALTER QMGR SSLKEYR('{certificates}')\nDEFINE LISTENER(TLS) PORT(0) TLS(YES)")
        with ServerThread(served) as server, connect(found["embedded"]):
            found["tcp"] = f"mq://{TESTER}@127.0.0.1:{server.port('TCP')}/QM1"
            if openssl() is not None:
                found["tls"] = f"mqs://{TESTER}@localhost:{server.port('TLS')}/QM1?ca={certificates / 'ca.pem'}"
            yield found


@pytest.fixture(scope="module")
def expected(urls: dict[str, str]) -> dict[str, Any]:
    return played(urls["embedded"], tasks=False)


def played(url: str, *, tasks: bool) -> dict[str, Any]:
    """What each scenario says, through one connection; an error that it did not expect is what it says, too."""

    async def play() -> dict[str, Any]:
        found = {}
        if tasks:
            connection: Any = await entrepot.aio.connect(url)
        else:
            connection = Blocking(connect(url))
        for scenario in SCENARIOS:
            stage = Stage(url, connection, f"D{next(_numbers)}", tasks=tasks)
            try:
                async with asyncio.timeout(60):
                    found[scenario.__name__] = await scenario(stage)
            except entrepot.EntrepotError as error:
                found[scenario.__name__] = ("UNEXPECTED", *told(error), str(error))
            except (TypeError, AttributeError, ValueError, KeyError, AssertionError) as error:
                found[scenario.__name__] = ("UNEXPECTED", repr(error))
            await stage.end()
        await connection.close()
        return found

    return asyncio.run(play())


def test_the_measure_itself_meets_no_surprise(expected: dict[str, Any]) -> None:
    surprises = {name: said for name, said in expected.items() if "UNEXPECTED" in str(said)}
    assert surprises == {}
    assert len(expected) == len(SCENARIOS) >= 100


@pytest.mark.parametrize(
    ("binding", "tasks"),
    [("embedded", True), *((binding, tasks) for binding in ("unix", "tcp", "tls") for tasks in (False, True))],
)
def test_every_scenario_has_the_same_outcome(
    urls: dict[str, str], expected: dict[str, Any], binding: str, tasks: bool
) -> None:
    if binding not in urls:
        pytest.skip("certificates are made with openssl")
    found = played(urls[binding], tasks=tasks)
    differences = [
        f"{name}\n  expected {expected[name]!r}\n  found    {said!r}"
        for name, said in found.items()
        if said != expected[name]
    ]
    assert not differences, "\n" + "\n".join(differences)


def _verbs(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - NOT_VERBS


def test_asyncio_has_the_same_verbs() -> None:
    for blocking, tasks in (
        (Connection, AioConnection),
        (UnitOfWork, AioUnitOfWork),
        (Consumption, AioConsumption),
        (Subscription, AioSubscription),
        (Delivery, AioDelivery),
        (Reader, AioReader),
        (Pipeline, AioPipeline),
    ):
        assert _verbs(blocking) == _verbs(tasks), blocking.__name__


def test_every_verb_has_a_scenario(expected: dict[str, Any]) -> None:
    assert expected
    used = {name for _, name in VERBS_USED}
    data = {"message"} | set(dir(Message))
    for kind in (Connection, UnitOfWork, Consumption, Subscription, Delivery, Reader, Pipeline):
        missing = _verbs(kind) - used - data - {"user", "application", "queue", "name", "browse"}
        assert {(kind.__name__, name) for name in missing} <= ELSEWHERE
