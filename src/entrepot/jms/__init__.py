# SPDX-License-Identifier: Apache-2.0
"""A view of a connection for those who know JMS: sessions, consumers, listeners and acknowledgement modes.

with entrepot.connect(url) as connection, Session(connection, Acknowledge.CLIENT) as session:
    consumer = session.consumer("ORDERS", selector="region = 'EU'")
    order = consumer.receive(wait_s=1)
    session.send("topic:orders/eu", order.body)
    session.acknowledge()

What each mode promises:

- AUTO: what `receive` returns has been acknowledged. A listener's message is acknowledged after its callback
  has returned; one whose callback raises comes again.
- DUPLICATES_OK: as AUTO, but `receive` reads up to `prefetch` messages ahead and tells the queue manager of those it
  has handed over in batches of half of that, or when it finds none for a moment. If the program or its connection dies,
  persistent ones that it was not told of come again, and nonpersistent ones that were read ahead are gone.
- CLIENT: what the session has received comes again unless `acknowledge` has returned.
- TRANSACTED: what the session sends and receives happens at its `commit`, all or nothing.

What comes again has a raised `backout_count` (JMS: JMSXDeliveryCount - 1) and its old place, so order is kept. Once a
queue's backout threshold is reached it goes to the backout queue. In the last two modes, and to listeners, messages
come one by one: a unit of work ends as a whole, so one that was read ahead and not yet received would be acknowledged
with the others, and lost with the program. At most MAXUMSGS of them can wait to be acknowledged.
"""

from __future__ import annotations

from entrepot.jms.consumer import Consumer
from entrepot.jms.reception import Acknowledge
from entrepot.jms.session import Session

__all__ = ["Acknowledge", "Consumer", "Session"]
