-- Opens the transaction in which people look: one snapshot for all statements up to commit.sql, nothing is written.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
