# SPDX-License-Identifier: Apache-2.0
"""A flow in Python and its tests: no queue manager, no Spark, and a stub for the service that it asks."""

from entrepot.flows import FlowDefinition
from entrepot.testing.flows import FlowTest

PRICE = """
SET OutputRoot = InputRoot;
SET OutputRoot.XMLNSC.order.total = CAST(InputRoot.XMLNSC.order.pieces AS INTEGER) *
  THE(SELECT ITEM P.euros FROM Database.price AS P WHERE P.article = InputRoot.XMLNSC.order.article);
"""
SHOP = "CREATE TABLE price (article TEXT, euros INTEGER); INSERT INTO price VALUES ('tea', 3), ('ship', 90000)"

flow = FlowDefinition("pricing")
flow.node("MQInput", "Orders", queue="ORDERS", domain="XMLNSC")
flow.node("Compute", "Price", statements=PRICE, data_source="SHOP")
flow.node("Filter", "Large", condition="Root.XMLNSC.order.total > 1000")
flow.node("HTTPRequest", "Credit", url="http://127.0.0.1:8080/credit")
flow.node("MQOutput", "Done", queue="DONE")
flow.node("MQOutput", "Refused", queue="REFUSED")
flow.link("Orders", "Price")
flow.link("Orders", "Refused", terminal="catch")
flow.link("Price", "Large")
flow.link("Large", "Credit", terminal="true")
flow.link("Large", "Done", terminal="false")
flow.link("Credit", "Done")

trial = FlowTest(flow, databases={"SHOP": SHOP})
cheap = trial.feed("ORDERS", "<order><article>tea</article><pieces>3</pieces></order>")
cheap.assert_output("DONE", tree={"XMLNSC.order.total": 9})
print("tea:", " → ".join(cheap.path))

trial.stub("Credit", ConnectionError("the service is down"))
dear = trial.feed("ORDERS", "<order><article>ship</article><pieces>1</pieces></order>")
dear.assert_failed(ConnectionError, "down")
print("ship:", dear.assert_output("REFUSED").body.decode())
