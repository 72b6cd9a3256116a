# SPDX-License-Identifier: Apache-2.0
"""A price ticker: retained prices, a durable desk with a selector, an auditor who looks into bodies."""

import tempfile

import entrepot
from entrepot.client.blocking import Subscription

with tempfile.TemporaryDirectory() as folder, entrepot.connect(f"embedded:{folder}/qm") as connection:

    def tick(share: str, price: int) -> None:
        body = f"<tick><share>{share}</share><price>{price}</price></tick>".encode()
        connection.publish(f"prices/{share}", body, retain=True, persistent=True, properties={"price": price})

    def read(subscription: Subscription) -> list[tuple[str, bool]]:
        """Topics of all that has come, and whether it was retained before."""
        return [(message.topic, message.retained) for message in subscription.consume(wait_s=0)]

    tick("tea", 90)
    tick("tea", 95)  # takes the place of 90
    tick("rope", 12)

    # Who comes late has the newest price of each share at once.
    with connection.subscribe("prices/+") as board:
        assert read(board) == [("prices/tea", True), ("prices/rope", True)]
        tick("tea", 101)
        assert read(board) == [("prices/tea", False)]
    print("the board has the newest prices, then the news")

    # The desk goes home; what it wants waits for it. It wants news only, and only what is dear.
    connection.subscribe("prices/#", durable="desk-7", selector="price > 100", new_only=True).close()
    with connection.subscribe("prices/#", content="xpath:/tick[share = 'rope']", new_only=True) as auditor:
        tick("tea", 105)
        tick("rope", 13)
        assert read(auditor) == [("prices/rope", False)]
    with connection.subscribe(durable="desk-7") as desk:
        assert read(desk) == [("prices/tea", False)]
    connection.unsubscribe("desk-7")
    print("the desk has tea above 100, the auditor all rope")
