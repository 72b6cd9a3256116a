# SPDX-License-Identifier: Apache-2.0
"""A shipment in parts is taken when all of it is there; a selector takes what one desk wants."""

import tempfile

import entrepot

with tempfile.TemporaryDirectory() as folder, entrepot.connect(f"embedded:{folder}/qm") as connection:
    connection.mqsc("DEFINE QLOCAL(SHIPMENTS); DEFINE QLOCAL(ORDERS)")

    connection.put("SHIPMENTS", b"mast", group_id=b"ship-1", sequence=2)
    connection.put("SHIPMENTS", b"hull", group_id=b"ship-1", sequence=1)
    with connection.unit_of_work() as unit:
        print("before the last part:", unit.get_group("SHIPMENTS"))
    connection.put("SHIPMENTS", b"sail", group_id=b"ship-1", sequence=3, last_in_group=True)
    with connection.unit_of_work() as unit:
        parts = unit.get_group("SHIPMENTS")
        print("all of it, in sequence:", [part.body.decode() for part in parts])

    connection.put("ORDERS", b"tea for Lisbon", properties={"region": "EU", "crates": 40})
    connection.put("ORDERS", b"rope for Boston", properties={"region": "US", "crates": 7})
    connection.put("ORDERS", b"cloves for Bergen", properties={"region": "EU", "crates": 3})
    for order in connection.browse("ORDERS", selector="region = 'EU'"):
        print("the European desk sees:", order.body.decode())
    small = connection.get("ORDERS", selector="region IN ('EU', 'US') AND crates BETWEEN 5 AND 20")
    print("the clerk for small ships takes:", small.body.decode())
    try:
        connection.get("ORDERS", selector="region = EU'")
    except entrepot.EntrepotError as error:
        print(error)
