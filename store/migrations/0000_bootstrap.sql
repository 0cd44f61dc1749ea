-- 0000: where the applied migrations are remembered. Run before every migration, so it must be repeatable.
CREATE SCHEMA IF NOT EXISTS oncepay;
CREATE TABLE IF NOT EXISTS oncepay.schema_migration (
    name       text PRIMARY KEY,
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
