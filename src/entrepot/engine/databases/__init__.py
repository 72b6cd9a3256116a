# SPDX-License-Identifier: Apache-2.0
"""Databases that take part in global units of work: their branches, and what a crash has left of them.

All of it goes through SQLAlchemy, which is an extra: nothing imports this
room before a program has handed us an engine, or an administrator a URL.
"""
