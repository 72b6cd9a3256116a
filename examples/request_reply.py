# SPDX-License-Identifier: Apache-2.0
"""Request and reply: three askers and two servers, each in a thread of its own."""

import tempfile
from concurrent.futures import ThreadPoolExecutor

import entrepot


def serve(connection: entrepot.Connection) -> int:
    """Answer requests until an empty one comes."""
    served = 0
    while (request := connection.get("QUOTES", wait_s=60)) and request.body:
        price = f"{request.body.decode()}: {len(request.body) * 10} euros"
        connection.put(
            request.reply_to,
            price.encode(),
            correlation_id=request.message_id,
            type=entrepot.MessageType.REPLY,
        )
        served += 1
    return served


with tempfile.TemporaryDirectory() as folder, entrepot.connect(f"embedded:{folder}/qm") as connection:
    connection.mqsc("DEFINE QLOCAL(QUOTES)")
    with ThreadPoolExecutor() as threads:
        servers = [threads.submit(serve, connection) for _ in range(2)]
        replies = threads.map(
            lambda item: connection.request("QUOTES", item, timeout_s=60), [b"rope", b"tea", b"cloves"]
        )
        for reply in replies:
            print(reply.body.decode())
        for _ in servers:
            connection.put("QUOTES", b"")
        print("served:", sum(server.result() for server in servers))
