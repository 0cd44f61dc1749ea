-- Keeps the text of a recovery policy version, so that tasks that pin it can be decided later. $1 version, $2 text.
INSERT INTO oncepay.recovery_policy (version, body) VALUES ($1::text, $2::text) ON CONFLICT DO NOTHING
