# SPDX-License-Identifier: Apache-2.0
"""Units of work: an order is taken and its invoice is put, or neither happens."""

import tempfile

import entrepot

with tempfile.TemporaryDirectory() as folder, entrepot.connect(f"embedded:{folder}/qm") as connection:
    connection.mqsc("""
        DEFINE QLOCAL(ORDERS) DEFPSIST(YES) BOTHRESH(2) BOQNAME(REFUSED)
        DEFINE QLOCAL(INVOICES) DEFPSIST(YES)
        DEFINE QLOCAL(REFUSED) DEFPSIST(YES)
    """)
    for order in (b"10 crates", b"nonsense", b"25 crates"):
        connection.put("ORDERS", order)

    while True:
        try:
            with connection.unit_of_work() as unit:
                order = unit.get("ORDERS")
                if order is None:
                    break
                crates = int(order.body.split()[0])
                unit.put("INVOICES", b"%d euros" % (crates * 12))
        except ValueError:
            # The unit was backed out: the order is on its queue again, and no invoice was put.
            print(f"backed out: {order.body.decode()}, after {order.backout_count} earlier attempts")

    for invoice in connection.browse("INVOICES"):
        print("invoice:", invoice.body.decode())
    refused = connection.get("REFUSED")
    print("refused:", refused.body.decode(), "because", refused.properties["dead_letter_problem"])
