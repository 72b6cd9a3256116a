      * AN ORDER AS THE MAINFRAME WRITES IT.
       01 ORDER-RECORD.
          05 ORDER-NUMBER     PIC 9(8).
          05 CUSTOMER         PIC X(4).
          05 ARTICLE          PIC X(8).
          05 PIECES           PIC S9(5) COMP-3.
