-- What intake must know before it decides a batch: for each request its key's row, the payment with
-- its (merchant, out_trade_no), and its target's pointer with the state of the payment named there.
-- $1 merchant, $2 key hash, $3 out_trade_no, $4 target kind, $5 target id (NULL: none), $6 amount,
-- $7 currency, $8 method type, $9 method token, $10 capture mode, $11 metadata (canonical JSON or NULL).
-- -> one row per request, in the order given: now, then key (fingerprint NULL: no row), its version,
-- status, headers, body, expires_at, expired; payment id (NULL: none), is a cancel tombstone, has the
-- same content; pointer's payment (NULL: no pointer), version, is held, that payment's status; the
-- payment that the key's answer accepted (its body is NULL then), NULL: another answer.
SELECT now(),
       k.fingerprint, k.fingerprint_version, k.answer_status, k.answer_headers, k.answer_body, k.expires_at,
       coalesce(k.expires_at <= now(), false),
       p.id, coalesce(p.is_tombstone, false), coalesce(p.is_same, false),
       a.payment_id, a.version, coalesce(a.hold IS NOT NULL, false), a.status,
       CASE WHEN k.answer_body IS NULL THEN k.payment_id END
  FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::text[],
              $8::text[], $9::text[], $10::int2[], $11::text[])
       WITH ORDINALITY AS d(merchant, key_hash, out_trade_no, target_kind, target_id, amount, currency,
                            method_type, method_token, capture_mode, metadata, n)
  LEFT JOIN LATERAL (
       SELECT i.fingerprint, i.fingerprint_version, i.answer_status, i.answer_headers, i.answer_body, i.expires_at,
              i.payment_id
         FROM oncepay.idempotency_key i
        WHERE i.merchant = d.merchant AND i.operation = 1 AND i.key_hash = d.key_hash LIMIT 1) k ON true
  LEFT JOIN LATERAL (
       SELECT q.id, q.target_kind IS NULL AS is_tombstone,
              q.target_kind IS NOT DISTINCT FROM d.target_kind AND q.target_id IS NOT DISTINCT FROM d.target_id
              AND q.amount IS NOT DISTINCT FROM d.amount AND q.currency IS NOT DISTINCT FROM d.currency
              AND q.method_type IS NOT DISTINCT FROM d.method_type
              AND q.method_token IS NOT DISTINCT FROM d.method_token
              AND q.capture_mode = d.capture_mode
              AND q.metadata IS NOT DISTINCT FROM d.metadata::jsonb AS is_same
         FROM oncepay.payment q
        WHERE q.merchant = d.merchant AND q.out_trade_no = d.out_trade_no LIMIT 1) p ON true
  LEFT JOIN LATERAL (
       SELECT t.payment_id, t.version, t.hold, q.status
         FROM oncepay.active_payment t
         JOIN oncepay.payment q ON q.id = t.payment_id
        WHERE t.merchant = d.merchant AND t.target_kind = d.target_kind AND t.target_id = d.target_id LIMIT 1) a ON true
 ORDER BY d.n
