-- The newest dead letters. $1 how many. -> dead letter, consumer, subject, code, field, payment, replays, replayed_at,
-- stored_at, created_at
SELECT d.id, d.consumer, d.subject, d.code, d.field, d.payment_id, d.replays, d.replayed_at, d.stored_at, d.created_at
  FROM oncepay.dead_letter d
 ORDER BY d.created_at DESC, d.id DESC
 LIMIT $1::int4
