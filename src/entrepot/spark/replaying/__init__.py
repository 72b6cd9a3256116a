# SPDX-License-Identifier: Apache-2.0
"""Flows over tables: in a stream, or over an archive, with a look at what is different.

transform      a flow over a table of messages
table_world    what such a flow may ask of the world: little
archive        queues and message files as archives
replay         an archive through a flow, or through two
differences    what two messages differ in, field by field
"""
