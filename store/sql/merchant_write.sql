-- Merchants of the configuration. $1 ids.
INSERT INTO oncepay.merchant (id) SELECT DISTINCT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING
