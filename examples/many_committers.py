# SPDX-License-Identifier: Apache-2.0
"""asyncio: many tasks commit at once, and one force of the log serves them all."""

import asyncio
import tempfile
import time

import entrepot.aio

TASKS, UNITS = 32, 10


async def main(folder: str) -> None:
    async with await entrepot.aio.connect(f"embedded:{folder}/qm") as connection:
        await connection.mqsc("DEFINE QLOCAL(ORDERS)")

        async def take_orders(task: int) -> None:
            for number in range(UNITS):
                async with connection.unit_of_work() as unit:
                    await unit.put("ORDERS", b"order %d of task %d" % (number, task), persistent=True)

        begun = time.perf_counter()
        await asyncio.gather(*(take_orders(task) for task in range(TASKS)))
        elapsed_s = time.perf_counter() - begun
        orders = [message async for message in connection.browse("ORDERS")]
        print(f"{len(orders)} orders, each on disk when its unit had ended, {len(orders) / elapsed_s:,.0f} units/s")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
