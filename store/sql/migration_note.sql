-- Remembers an applied migration. $1 name, $2 sha256.
INSERT INTO oncepay.schema_migration (name, sha256) VALUES ($1, $2)
