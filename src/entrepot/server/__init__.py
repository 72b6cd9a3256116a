# SPDX-License-Identifier: Apache-2.0
"""What serves the partners of a queue manager: sessions, the protocols, administration, and who may do what.

`session` is what any protocol offers its users, and knows none of them.
`native`, with the frames of `wire/`, and `amqp/` are adapters of one protocol
each. `mqsc/` is the administration language, `security/` says who may come in
and what is allowed then.
"""
