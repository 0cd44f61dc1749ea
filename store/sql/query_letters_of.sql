-- The dead letters of a payment. $1 payment. -> dead letter, consumer, code, field, replays, replayed_at, created_at
SELECT d.id, d.consumer, d.code, d.field, d.replays, d.replayed_at, d.created_at
  FROM oncepay.dead_letter d
 WHERE d.payment_id = $1::uuid
 ORDER BY d.created_at, d.id
