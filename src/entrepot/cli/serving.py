# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm start` and `entrepot qm stop`: a queue manager as a process that others connect to."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Manager
from entrepot.errors import EntrepotError

_LOG = "server.log"
_START_S = 120.0
_POLL_S = 0.02
_SHOWN_MAX = 10
_GARBAGE_AFTER = 20_000


def start(
    path: Manager,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Also listen on this port of 127.0.0.1, until it stops."),
    ] = None,
    amqp_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="The same for AMQP 1.0 clients."),
    ] = None,
    amqp_channel: Annotated[
        str,
        typer.Option(metavar="NAME", help="The channel that AMQP clients use; it is defined if there is none."),
    ] = "AMQP.CLIENTS",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background; its log is server.log in the folder.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a queue manager as a server, until Ctrl-C or `entrepot qm stop`.

    Programs on this machine connect with unix:PATH. Listeners that are defined (DEFINE LISTENER) start with it.
    """
    from entrepot.engine.folder import read_settings

    name = read_settings(path).name
    options = [
        *(() if port is None else ("--port", str(port))),
        *(() if amqp_port is None else ("--amqp-port", str(amqp_port), "--amqp-channel", amqp_channel)),
    ]
    if detach:
        _start_behind(path, name, options, json)
    else:
        _run(path, port, amqp_port, amqp_channel, json)


def _run(path: Path, port: int | None, amqp_port: int | None, amqp_channel: str, json: bool) -> None:
    import asyncio
    import gc
    import logging
    import signal

    from entrepot.daemon.server import Server, new_event_loop
    from entrepot.engine.definitions import Listener
    from entrepot.server.memory_watch import end_when_out_of_memory

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)

    async def serve() -> None:
        server = await Server.start(path)
        loop = asyncio.get_running_loop()
        end_when_out_of_memory(loop)
        asked = 0

        def stop() -> None:
            # The first signal lets partners end their work, the second one does not.
            nonlocal asked
            asked += 1
            loop.create_task(server.stop(immediate=asked > 1, hasten=asked > 1))  # noqa: RUF006  # outlived by the server

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        try:
            if port is not None:
                await server.listen(Listener(name="COMMAND.LINE", port=port))
            if amqp_port is not None:
                await server.listen_for_amqp(amqp_port, amqp_channel)
        except EntrepotError:
            await server.stop(immediate=True)
            raise
        # What is there now stays; looking through it again and again for garbage would cost a processor's twentieth.
        gc.freeze()
        gc.set_threshold(_GARBAGE_AFTER, 20, 50)
        _tell(path, server, json)
        await server.stopped()
        if server.host.failure is not None and server.failed:
            raise server.host.failure

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve())


def _tell(path: Path, server: Any, json: bool) -> None:
    listeners = [listener.status() for listener in server.listeners.values()]
    name = server.host.settings.name
    if json:
        output.print_json({"name": name, "path": str(path), "state": "running", "listeners": listeners}, lines=True)
    else:
        output.say(f"Queue manager {name} runs. Programs on this machine connect to unix:{path}")
        for row in listeners:
            output.say(f"It listens at {row['IPADDR']}:{row['PORT']} ({row['PROTOCOL']}).")
        for words in server.admission_advice():
            output.note(words)
        output.note("Ctrl-C or entrepot qm stop ends it.")
    sys.stdout.flush()


def _start_behind(path: Path, name: str, options: list[str], json: bool) -> None:
    pid = start_server(path, options)
    if json:
        output.print_json({"name": name, "path": str(path), "state": "running", "pid": pid})
        return
    output.say(f"Queue manager {name} runs in the background as process {pid}.")
    output.note(f"Its log: {path / _LOG}. Stop it with entrepot qm stop {path}.")


def start_server(path: Path, options: Sequence[str] = ()) -> int:
    """Run a queue manager in the background; returns its process id when others can connect."""
    if opening.owner(path) is not None:
        with opening.held_still(path):
            raise AssertionError("held_still refuses a queue manager that runs")
    command = [sys.executable, "-m", "entrepot.cli.main", "qm", "start", str(path), *options, "--json"]
    with open_log(path / _LOG) as log:
        # Its own session: the end of this terminal is not its end.
        child = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    assert child.stdout is not None
    with child.stdout:
        # It tells when all its listeners listen, not only the socket in its folder.
        first_line = select.select([child.stdout], [], [], _START_S)[0] and child.stdout.readline()
    if not first_line:
        last = (path / _LOG).read_text(errors="replace").splitlines()[-5:]
        for line in last:
            output.note(line)
        output.note(f"The queue manager at {path} has not started; {path / _LOG} tells more.")
        raise typer.Exit(1)
    return child.pid


def open_log(path: Path) -> BinaryIO:
    """A file of the queue manager's user alone: it names users and addresses."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)  # one of an earlier release was for all to read
    return os.fdopen(descriptor, "ab")


def stop_server(path: Path, *, immediate: bool = False) -> None:
    """Stop a queue manager that runs in the background, and wait until it has."""
    with opening.connected(f"unix:{path}") as connection:
        answer = connection.administration.stop(immediate=immediate)
    if isinstance(answer, dict) and answer["waits_for"]:
        output.note(f"It waits up to {answer['patience_s']:g} s for units of work to end (--immediate does not), of:")
        for partner in answer["waits_for"][:_SHOWN_MAX]:
            output.note(f"  {partner}")
        if len(answer["waits_for"]) > _SHOWN_MAX:
            output.note(f"  and {len(answer['waits_for']) - _SHOWN_MAX} more")
    while opening.owner(path) is not None:
        time.sleep(_POLL_S)


def stop(
    path: Manager,
    immediate: Annotated[
        bool, typer.Option("--immediate", "-i", help="Do not let partners end their units of work; back them out.")
    ] = False,
    json: Json = False,
) -> None:
    """Stop a queue manager that runs as a server; acknowledged messages stay."""
    from entrepot.engine.folder import read_settings

    name = read_settings(path).name
    stopped = opening.owner(path) is None
    if not stopped:
        stop_server(path, immediate=immediate)
    if json:
        output.print_json({"name": name, "state": "stopped"})
    else:
        output.say(f"Queue manager {name} {'was not running' if stopped else 'has stopped'}.")
