-- Which webhooks nobody has looked at. One that was looked at and belongs to nobody yet is parked: recover looks at
-- it again by itself. $1 inbox ids.
-- -> place (from 1), 0, since when, account, false.
SELECT d.place::int4, 0::int2, i.received_at, i.channel_account, false
  FROM unnest($1::uuid[]) WITH ORDINALITY AS d(id, place)
  JOIN LATERAL (SELECT f.received_at, f.channel_account, f.processed_at, f.looks
                  FROM oncepay.webhook_inbox f WHERE f.id = d.id LIMIT 1) i
       ON i.processed_at IS NULL AND i.looks = 0
