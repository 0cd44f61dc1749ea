-- Ends a transaction that begin.sql opened.
COMMIT
