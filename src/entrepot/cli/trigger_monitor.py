# SPDX-License-Identifier: Apache-2.0
"""`entrepot trigger-monitor`: start the programs that queues ask for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Reachable


def trigger_monitor(
    path: Reachable,
    queue: Annotated[
        str, typer.Option("--queue", metavar="INITQ", help="The initiation queue.")
    ] = "SYSTEM.DEFAULT.INITIATION.QUEUE",
    once: Annotated[bool, typer.Option("--once", help="Stop when no trigger message is left.")] = False,
    json: Json = False,
) -> None:
    """Wait for trigger messages and start their queues' programs, until Ctrl-C; JSON lines with --json.

    What is started is the PROCESS of the queue that a trigger message names, as it is defined at that moment.

    With a server (entrepot qm start) the programs can connect to the same queue manager. Without one the monitor
    runs it, and a program can have it only when the monitor has stopped, as with --once.
    """
    from entrepot.engine.trigger_monitor import TriggeredProgram, TriggerMonitor, start_process

    def start(program: TriggeredProgram) -> object:
        process = start_process(program)
        if json:
            output.print_json({"process_id": process.pid, **asdict(program)}, lines=True)
        else:
            output.say(f"process {process.pid} started: {program.command}")
        return process

    with opening.connected(path) as connection:
        dead_letter_queue = str(connection.mqsc("DISPLAY QMGR DEADQ")[0].rows[0]["DEADQ"])
        monitor = TriggerMonitor(connection, queue, start, dead_letter_queue=dead_letter_queue)
        if not once and not json:
            output.note(f"Waiting for trigger messages on {queue}; Ctrl-C ends it.")
        monitor.run(once=once)
    if not json:
        output.note(f"{monitor.started} started, {monitor.failed} failed.")
