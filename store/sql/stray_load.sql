-- The rows around a fact that contradicts what is final. $1 payment, $2 attempt, $3 account,
-- $4 provider object, $5 stray kind.
-- -> one row per unsent create attempt of the target, one in any case; none: no such payment.
--    0 merchant, 1 out_trade_no, 2 target kind, 3 target id, 4 amount, 5 currency, 6 status,
--    7 version, 8 certainty, 9 reason, 10 captured, 11 refunded, 12 next_action, 13 traceparent,
--    14 payment that the pointer names, 15 pointer version, 16 hold, 17 another payment of the
--    target holds money, 18 this fact is recorded, 19 its attempt's case is closed,
--    20 unsent attempt, 21 its payment
SELECT p.merchant, p.out_trade_no, p.target_kind, p.target_id, p.amount, p.currency, p.status,
       p.version, p.certainty, p.reason, p.captured, p.refunded, p.next_action::text,
       p.traceparent, t.payment_id, t.version, t.hold, coalesce(q.holds_money, false),
       -- One object's success is one fact, whether it was the first of its target or not.
       EXISTS (SELECT FROM oncepay.stray_fact s
                WHERE s.channel_account = $3::text AND s.provider_object = $4::text
                  AND (s.kind = $5::int2 OR (s.kind IN (1, 2) AND $5::int2 IN (1, 2)))),
       EXISTS (SELECT FROM oncepay.manual_case c
                WHERE c.attempt_id = $2::uuid AND c.kind = 3 AND c.status = 50),
       u.id, u.payment_id
  FROM oncepay.payment p
  LEFT JOIN LATERAL (
       SELECT f.payment_id, f.version, f.hold FROM oncepay.active_payment f
        WHERE f.merchant = p.merchant AND f.target_kind = p.target_kind
          AND f.target_id = p.target_id LIMIT 1) t ON true
  LEFT JOIN LATERAL (
       SELECT f.status IN (30, 35, 40, 50, 60) AS holds_money FROM oncepay.payment f
        WHERE f.id = t.payment_id AND f.id <> p.id LIMIT 1) q ON true
  LEFT JOIN LATERAL (
       SELECT f.id, f.payment_id FROM oncepay.payment_attempt f
        WHERE f.payment_id = ANY (ARRAY[p.id, t.payment_id]) AND f.operation = 1 AND f.status = 10
        ORDER BY f.id LIMIT 4) u ON true
 WHERE p.id = $1::uuid
