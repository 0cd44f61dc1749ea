-- The hash under which a migration was applied. $1 name. -> sha256; no row: not applied.
SELECT sha256 FROM oncepay.schema_migration WHERE name = $1
