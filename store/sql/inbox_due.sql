-- Parked or forgotten events that are due for a look. $1 account; $2 how many. -> inbox ids.
SELECT id FROM oncepay.webhook_inbox
 WHERE processed_at IS NULL AND look_at <= now() AND channel_account = $1::text
 ORDER BY look_at, id
 LIMIT $2::int4
