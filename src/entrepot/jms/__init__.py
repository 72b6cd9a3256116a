# SPDX-License-Identifier: Apache-2.0
"""A connection as JMS has it: sessions, consumers, listeners and acknowledgement modes.

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
queue's backout threshold is reached it goes to the backout queue. At most MAXUMSGS can wait to be acknowledged.

In the last two modes, and for listeners in all of them, up to `prefetch` messages for each consumer come ahead through
a channel. Those that were not received yet are neither acknowledged with the others nor counted as tried nor lost,
whatever becomes of the program, its connection or the session: the queue manager is told of each before `receive`
returns it or a callback has it. While they are ahead no other reader gets or browses them, and none of higher priority
overtakes them. A `prefetch` of 1 reads none ahead: messages come one by one, on request. If the network fails in
between, all come again as well, but the word of the last ones may be lost, so that these are not counted; and if the
queue manager hears nothing any more, it counts those that were ahead, too.
"""

from __future__ import annotations

from entrepot.jms.consumer import Consumer
from entrepot.jms.reception import Acknowledge
from entrepot.jms.session import Session

__all__ = ["Acknowledge", "Consumer", "Session"]
