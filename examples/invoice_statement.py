# SPDX-License-Identifier: Apache-2.0
"""An ESQL module: orders in XML become statements, one for each customer who has ordered anything."""

from entrepot.esql import compile_texts
from entrepot.message import Message
from entrepot.models import parse_message, render_message

PROGRAM = """
CREATE COMPUTE MODULE Statements
  CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN
    SET OutputRoot.MQMD = InputRoot.MQMD;
    SET OutputRoot.XMLNSC.statements.statement[] =
      (SELECT C.name AS (XMLNSC.Attribute)name,
              (SELECT SUM(CAST(I.price AS DECIMAL) * CAST(I.count AS INTEGER)) FROM C.item[] AS I) AS total
       FROM InputRoot.XMLNSC.orders.customer[] AS C WHERE EXISTS(C.item[]));
    RETURN TRUE;
  END;
END MODULE;
"""

BODY = b"""<orders>
  <customer><name>Braun</name><item><price>12.50</price><count>2</count></item>
                              <item><price>0.40</price><count>10</count></item></customer>
  <customer><name>Weiss</name></customer>
</orders>"""

module = compile_texts({"statements.esql": PROGRAM}).module("Statements")
for terminal, assembly in module.compute(parse_message(Message(BODY), domain="XMLNSC")):
    print(f"{terminal}: {render_message(assembly.root).body.decode()}")
