-- Takes parked or forgotten events that are due for a look; nobody else takes them for half a minute.
-- $1 account; $2 how many. -> inbox ids.
WITH due AS MATERIALIZED (
    SELECT id FROM oncepay.webhook_inbox
     WHERE processed_at IS NULL AND look_at <= now() AND channel_account = $1::text
     ORDER BY look_at, id
     LIMIT $2::int4
       FOR UPDATE SKIP LOCKED
)
UPDATE oncepay.webhook_inbox i SET look_at = now() + interval '30 seconds'
 WHERE i.id = ANY (ARRAY(SELECT id FROM due))
RETURNING i.id
