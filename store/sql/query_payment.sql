-- What intake_view does not say about a payment: its row and its target's pointer. $1 payment.
-- -> 0 merchant, 1 target kind, 2 target id, 3 method type, 4 token realm, 5 capture mode, 6 authorised, 7 start_by,
--    8 expires_at, 9 applied attempt, 10 applied version, 11 traceparent, 12 created_at,
--    13 payment that the pointer names (NULL: no pointer), 14 when a timer lifts the hold, 15 now
SELECT p.merchant, p.target_kind, p.target_id, p.method_type, p.token_realm, p.capture_mode, p.authorised,
       p.start_by, p.expires_at, p.applied_attempt, p.applied_version, p.traceparent, p.created_at,
       t.payment_id, w.due_at, now()
  FROM oncepay.payment p
  LEFT JOIN LATERAL (SELECT f.payment_id FROM oncepay.active_payment f
                      WHERE f.merchant = p.merchant AND f.target_kind = p.target_kind
                        AND f.target_id = p.target_id LIMIT 1) t ON true
  LEFT JOIN LATERAL (SELECT f.due_at FROM oncepay.payment_timer f
                      WHERE f.payment_id = p.id AND f.kind = 1 LIMIT 1) w ON true
 WHERE p.id = $1::uuid
