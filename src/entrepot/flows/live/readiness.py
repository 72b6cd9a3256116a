# SPDX-License-Identifier: Apache-2.0
"""What a flow needs before it can run: queues, data sources, and databases that can do what it asks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from entrepot.client.blocking import Connection
from entrepot.errors import EntrepotError, FlowNotReady, MqscError, NotAuthorized
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel


def require_ready(flow: FlowDefinition, databases: Mapping[str, str], connection: Connection) -> None:
    """Check all that can be known of a flow before it runs.

    Raises:
        FlowInvalid: Everything that is wrong with it.
        FlowNotReady: Everything that it needs and that is not there.
    """
    kernel = Kernel(flow)
    problems = list(_missing_sources(kernel, databases))
    problems += _missing_queues(kernel, connection)
    if databases:
        problems += _unreachable(databases)
        if flow.coordinated and not problems:
            problems += _uncoordinated(databases, connection)
    if problems:
        raise FlowNotReady(flow.name, tuple(problems))


def _missing_sources(kernel: Kernel, databases: Mapping[str, str]) -> Iterator[str]:
    if "" in databases:
        return
    for node in kernel.nodes.values():
        source = node.settings.get("data_source")
        if source and source not in databases:
            yield f"node {node.name}: the data source {source!r} has no database; say --database {source}=URL"


def _missing_queues(kernel: Kernel, connection: Connection) -> Iterator[str]:
    for point in kernel.points:
        if not point.queue or point.internal:
            continue
        try:
            found = connection.mqsc(f"DISPLAY QUEUE('{point.queue}')")[0].rows
        except NotAuthorized:
            continue  # the get itself will tell
        except MqscError:
            found = ()
        if not found:
            yield f"node {point.node.name}: there is no queue {point.queue}; DEFINE QLOCAL('{point.queue}')"


def _unreachable(databases: Mapping[str, str]) -> Iterator[str]:
    from entrepot.flows.live.flow_databases import FlowDatabases

    opened = FlowDatabases(databases)
    try:
        for name in databases:
            try:
                opened._connected(name)
            except EntrepotError as error:
                yield f"data source {name or '(default)'}: {error.what}"
    finally:
        opened.close()


def _uncoordinated(databases: Mapping[str, str], connection: Connection) -> Iterator[str]:
    """Databases that cannot commit together with messages."""
    from entrepot.flows.live.flow_databases import FlowDatabases

    opened = FlowDatabases(databases)
    try:
        connection.global_unit_of_work(*opened.engines).back_out()
    except EntrepotError as error:
        yield f"{error.what}; {error.advice}"
    finally:
        opened.close()
