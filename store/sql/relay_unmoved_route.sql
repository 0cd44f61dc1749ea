-- Which route commands have not moved their payment: it has no attempt after the ordinal, and no decision that there
-- is no route. $1 payments, $2 ordinals followed.
-- -> place (from 1), payment's status, since when, account (''), was a command of it dead-lettered?
SELECT d.place::int4, p.status, coalesce(h.at, p.created_at), ''::text, coalesce(x.is_dead, false)
  FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY AS d(payment_id, follows, place)
  JOIN LATERAL (SELECT f.status, f.version, f.created_at FROM oncepay.payment f WHERE f.id = d.payment_id LIMIT 1) p
       ON p.status = 10 OR (p.status = 20 AND d.follows > 0)
  LEFT JOIN LATERAL (SELECT f.at FROM oncepay.state_history f
                      WHERE f.payment_id = d.payment_id AND f.entity = 1 AND f.id = d.payment_id
                        AND f.version = p.version LIMIT 1) h ON true
  LEFT JOIN LATERAL (SELECT true AS is_dead FROM oncepay.dead_letter f
                      WHERE f.payment_id = d.payment_id AND f.replayed_at IS NULL LIMIT 1) x ON true
  LEFT JOIN LATERAL (SELECT true AS is_there FROM oncepay.payment_attempt f
                      WHERE f.payment_id = d.payment_id AND f.operation = 1 AND f.number = 1
                        AND f.ordinal = d.follows + 1 LIMIT 1) a ON true
  LEFT JOIN LATERAL (SELECT true AS is_there FROM oncepay.routing_decision f
                      WHERE f.payment_id = d.payment_id AND f.follows = d.follows LIMIT 1) r ON true
 WHERE a.is_there IS NULL AND r.is_there IS NULL
