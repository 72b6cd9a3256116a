# SPDX-License-Identifier: Apache-2.0
"""Lets every session of Spark know `format("entrepot")`: it looks for a DefaultSource in modules of such names.

It asks for no setting of the session. `entrepot.spark.register` does, and lets
a query's filters on the queue's name decide which queues are read.
"""

from __future__ import annotations

import contextlib

# Spark imports this module for whatever data source it looks for, so it must load where the extra is missing.
with contextlib.suppress(ImportError):
    from entrepot.spark.tables.data_source import EntrepotDataSource

    class DefaultSource(EntrepotDataSource):
        """What Spark registers by itself."""
