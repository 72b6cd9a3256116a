# SPDX-License-Identifier: Apache-2.0
"""AMQP 1.0 for everybody who does not use our own client: one more adapter on the session of `server`.

The way of a connection: `protocol` has the socket and, with `handshake`,
finds out who is there; `conversation` leads proton's engine and hands its
events to the links: `incoming`, `outgoing`, `browsing`, `subscription_link`
and `transaction`. `link_subscriptions` knows which subscriptions they share.
`frame_checker` looks at every frame before the engine does. `codec` knows AMQP's
types, `mapping` its messages, `addresses`, `identifiers`, `filters` and
`conditions` its names for things. docs/AMQP.md says what is supported.

`engine` needs the extra `amqp`; nothing below this room imports it.
"""
