-- Tells producers of refused requests, by event. $1 event id, $2 subject, $3 body, $4 headers (arrays).
-- Ids are made from the message, so a redelivery writes nothing new. -> no rows.
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
SELECT d.id, 2, d.subject, 1, d.id, 0, NULL, d.body, d.headers
  FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[]) AS d(id, subject, body, headers)
    ON CONFLICT (id) WHERE kind = 2 AND payment_id IS NULL DO NOTHING
