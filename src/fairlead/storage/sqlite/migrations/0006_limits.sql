-- Limits of single customers; NULL: as for everybody.
ALTER TABLE customers ADD COLUMN requests_a_second REAL;
ALTER TABLE customers ADD COLUMN requests_burst INTEGER;
ALTER TABLE customers ADD COLUMN bytes_a_day INTEGER;
