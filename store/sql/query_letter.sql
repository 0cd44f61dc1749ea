-- One dead letter, whole. $1 id.
-- -> 0 consumer, 1 subject, 2 sequence, 3 deliveries, 4 headers, 5 body, 6 method token (for a replay only), 7 code,
--    8 field, 9 problem (JSON), 10 payment, 11 case, 12 stored_at, 13 replays, 14 replayed_at, 15 created_at
SELECT d.consumer, d.subject, d.sequence, d.deliveries, d.headers, d.body, d.method_token, d.code, d.field, d.problem,
       d.payment_id, d.case_id, d.stored_at, d.replays, d.replayed_at, d.created_at
  FROM oncepay.dead_letter d
 WHERE d.id = $1::uuid
