# SPDX-License-Identifier: Apache-2.0
"""Queues as tables: the data source and sink `entrepot`.

rows           messages as rows, and back
payload        columns of modelled payload fields
places         how far a queue reaches, and its pages
reaching       connections of tasks
options        what can be said to the source and the sink
source         reading a queue; stream_source in micro-batches
sink           writing to one, exactly once; ledger remembers which batches were
data_source    what Spark calls
"""
