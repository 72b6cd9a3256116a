# SPDX-License-Identifier: Apache-2.0
"""Bytes and verbs of the native protocol, written down in docs/WIRE.md; no sockets, no queues.

`frame` cuts a stream of bytes into frames, `verbs` says what a frame can
ask or answer, `codec` turns one into the other, `error_form` carries errors.
"""
