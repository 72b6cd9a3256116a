# SPDX-License-Identifier: Apache-2.0
"""Who is talking to the queue manager, and how: sessions, listeners, clients, and channels between queue managers.

`session` is what any protocol offers its users, and knows none of them.
`native` and the room `amqp` are adapters of one protocol each.
"""
