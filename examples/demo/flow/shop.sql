-- Who may order, what it costs, and what was ordered. The ledger has no unique key, so that a row twice would show.
PRAGMA journal_mode = WAL;
CREATE TABLE customer (id TEXT PRIMARY KEY, name TEXT NOT NULL, region TEXT NOT NULL);
CREATE TABLE price (article TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE ledger (number INTEGER NOT NULL, customer TEXT NOT NULL, cents INTEGER NOT NULL);
INSERT INTO customer VALUES
  ('C001', 'Hansa Stores', 'EU'), ('C002', 'Bergen Ropeworks', 'EU'), ('C003', 'Lisbon Tea House', 'EU'),
  ('C004', 'Harbour Supply', 'US'), ('C005', 'Mississippi Mills', 'US'), ('C006', 'Pacific Outfitters', 'US'),
  ('C007', 'Kobe Trading', 'ASIA'), ('C008', 'Straits Provisions', 'ASIA');
INSERT INTO price VALUES
  ('TEA', 250), ('ROPE', 1200), ('LAMP', 4990), ('BISCUIT', 120), ('ANCHOR', 38000), ('SEXTANT', 24500), ('TAR', 899);
