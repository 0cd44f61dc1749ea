-- What route decides from. $1 payment ids, $2 attempt ordinals that the commands follow (arrays).
-- -> one row per command, in the order given: now, payment exists, merchant, out_trade_no, amount, currency,
-- method type, method token, token realm, capture mode, return URL, status, version, start by, the next
-- ordinal exists, a decision for it exists.
SELECT now(), p.id IS NOT NULL, p.merchant, p.out_trade_no, p.amount, p.currency, p.method_type, p.method_token,
       p.token_realm, p.capture_mode, p.return_url, p.status, p.version, p.start_by,
       EXISTS (SELECT FROM oncepay.payment_attempt a
                WHERE a.payment_id = d.payment_id AND a.operation = 1 AND a.number = 1 AND a.ordinal = d.follows + 1),
       EXISTS (SELECT FROM oncepay.routing_decision r WHERE r.payment_id = d.payment_id AND r.follows = d.follows)
  FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY AS d(payment_id, follows, n)
  LEFT JOIN LATERAL (SELECT q.* FROM oncepay.payment q WHERE q.id = d.payment_id LIMIT 1) p ON true
 ORDER BY d.n
