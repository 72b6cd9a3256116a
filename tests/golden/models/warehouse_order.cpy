000100*----------------------------------------------------------------*
000200* AN ORDER AS THE WAREHOUSE SENDS IT                              *
000300*----------------------------------------------------------------*
000400 01  ORDER-RECORD.
000500     05  ORDER-ID              PIC 9(6).
000600     05  ORDER-DATE            PIC X(8).
000700     05  CUSTOMER.
000800         10  CUSTOMER-NAME     PIC X(10).
000900         10  FILLER            PIC X(2).
001000         10  BALANCE           PIC S9(5)V99 COMP-3.
001100     05  UNIT-PRICE            PIC 9V99.
001200     05  PAYMENT-KIND          PIC X.
001300         88  BY-CARD           VALUE 'C'.
001400         88  BY-GIRO           VALUE 'G'.
001500     05  PAYMENT.
001600         10  CARD-NUMBER       PIC 9(8).
001700         10  GIRO REDEFINES CARD-NUMBER.
001800             15  BANK          PIC X(4).
001900             15  ACCOUNT       PIC X(4).
002000     05  LINE-COUNT            PIC S9(4) COMP.
002100     05  ORDER-LINE            OCCURS 0 TO 50 TIMES
002200                               DEPENDING ON LINE-COUNT
002300                               INDEXED BY LINE-INDEX.
002400         10  SKU               PIC X(4).
002500         10  QUANTITY          PIC S9(3) SIGN LEADING SEPARATE.
002600         10  DISCOUNT          PIC SV99 COMP-3 OCCURS 2 TIMES.
002700     05  TRAILER               PIC XX.
