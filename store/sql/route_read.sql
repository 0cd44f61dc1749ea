-- What route decides from. $1 payment ids, $2 attempt ordinals that the commands follow (arrays).
-- -> one row per command, in the order given: now, payment exists, merchant, out_trade_no, amount, currency,
-- method type, method token, token realm, capture mode, return URL, status, version, start by, the next
-- ordinal exists, a decision for it exists.
--
-- Look-ups are LATERAL … LIMIT 1: an EXISTS in the select list may become a hash of the whole table,
-- and did.
SELECT now(), p.id IS NOT NULL, p.merchant, p.out_trade_no, p.amount, p.currency, p.method_type, p.method_token,
       p.token_realm, p.capture_mode, p.return_url, p.status, p.version, p.start_by,
       coalesce(a.is_there, false), coalesce(r.is_there, false)
  FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY AS d(payment_id, follows, n)
  LEFT JOIN LATERAL (SELECT q.* FROM oncepay.payment q WHERE q.id = d.payment_id LIMIT 1) p ON true
  LEFT JOIN LATERAL (
       SELECT true AS is_there FROM oncepay.payment_attempt f
        WHERE f.payment_id = d.payment_id AND f.operation = 1 AND f.number = 1 AND f.ordinal = d.follows + 1
        LIMIT 1) a ON true
  LEFT JOIN LATERAL (
       SELECT true AS is_there FROM oncepay.routing_decision f
        WHERE f.payment_id = d.payment_id AND f.follows = d.follows LIMIT 1) r ON true
 ORDER BY d.n
