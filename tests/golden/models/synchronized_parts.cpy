*> Free text: a table of synchronized numbers, little-endian as a PC has them.
01 PARTS.
  05 KIND        PIC X.
  05 TOTAL       PIC S9(9) COMP SYNC.
  05 PART        OCCURS 2.
     10 MARK     PIC X.
     10 AMOUNT   PIC S9(4) BINARY SYNCHRONIZED.
     10 COLOUR   PIC X.
  05 RATIO       COMP-2 SYNC.
  05 CREDIT      PIC S9(3)V9.
