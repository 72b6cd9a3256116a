# SPDX-License-Identifier: Apache-2.0
"""The main job of Entrepot, shown: orders through flows on Spark, three SIGKILLs, each order exactly once.

    python examples/demo

story is the demo from its first line to its last, telling its words. orders
says what each order wants, sender puts them, world has the queue manager and
the database, run the flows of flow/ and the kills, verdict the proof.
"""
