# SPDX-License-Identifier: Apache-2.0
"""asyncio and a server: orders come ahead of their use, and each becomes an invoice that outlives both processes."""

import asyncio
import sys
import tempfile

import entrepot.aio


async def entrepot_command(*words: str) -> None:
    command = (sys.executable, "-m", "entrepot.cli.main", *words)
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    assert await child.wait() == 0


async def invoice(url: str) -> None:
    async with (
        await entrepot.aio.connect(url) as connection,
        await connection.consume("ORDERS", read_ahead=20, wait_s=60) as orders,
    ):
        # An order is settled when its turn of the loop has ended well; if we fail or die before, it comes again.
        async for order in orders:
            if not order.body:  # the last one
                break
            await connection.put("INVOICES", b"invoice for " + order.body, persistent=True)


async def main(folder: str) -> None:
    await entrepot_command("qm", "create", f"{folder}/qm")
    await entrepot_command("qm", "start", f"{folder}/qm", "--detach")
    url = f"unix:{folder}/qm"
    async with await entrepot.aio.connect(url) as connection:
        await connection.mqsc("DEFINE QLOCAL(ORDERS); DEFINE QLOCAL(INVOICES)")
        consumers = [asyncio.create_task(invoice(url)) for _ in range(2)]
        await asyncio.gather(*(connection.put("ORDERS", b"%d crates" % n, persistent=True) for n in range(1, 101)))
        await asyncio.gather(*(connection.put("ORDERS", b"") for _ in consumers))
        await asyncio.gather(*consumers)
        invoices = [message.body async for message in connection.browse("INVOICES")]
        print(f"{len(set(invoices))} invoices, for instance:", invoices[0].decode())
    await entrepot_command("qm", "stop", f"{folder}/qm")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
