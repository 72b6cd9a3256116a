# SPDX-License-Identifier: Apache-2.0
"""A COBOL record from a mainframe: the copybook says what its bytes mean, and the same model writes it as XML."""

from entrepot.models import MRM, MessageFormat
from entrepot.models.copybook import read_copybook
from entrepot.models.tree import Element

COPYBOOK = """
       01 ORDER-RECORD.
          05 ORDER-ID     PIC X(6).
          05 AMOUNT       PIC S9(7)V99 COMP-3.
          05 LINES        PIC 9(2).
          05 LINE-ITEM    OCCURS 1 TO 9 TIMES DEPENDING ON LINES.
             10 ARTICLE   PIC X(4).
             10 PIECES    PIC 9(4) COMP.
"""
EBCDIC, BIG_ENDIAN = 500, 785

model = read_copybook(COPYBOOK, "order.cpy")
record = "A-0042".encode("cp500") + bytes.fromhex("000012345C") + "02".encode("cp500")
record += "TEA ".encode("cp500") + bytes.fromhex("000A") + "ROPE".encode("cp500") + bytes.fromhex("0003")

order = Element("ORDER_RECORD")
order.fill(MRM.codec(MessageFormat(model, "ORDER_RECORD", "CWF1")).parse(record, EBCDIC, BIG_ENDIAN))
print("amount", order.get("AMOUNT"), "and", len(order.all("LINE_ITEM")), "lines")
print(MRM.codec(MessageFormat(model, "ORDER_RECORD", "XML1")).render(order, 1208, 546).decode())

back = MRM.codec(MessageFormat(model, "ORDER_RECORD", "CWF1")).render(order, EBCDIC, BIG_ENDIAN)
print("written back byte for byte:", back == record)
