-- Which answers "there is no route" have not ended their payment. $1 payments, $2 ordinals followed.
-- -> place (from 1), payment's status, since when, account (''), was a command of it dead-lettered?
SELECT d.place::int4, p.status, coalesce(r.created_at, p.created_at), ''::text, coalesce(x.is_dead, false)
  FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY AS d(payment_id, follows, place)
  JOIN LATERAL (SELECT f.status, f.created_at FROM oncepay.payment f WHERE f.id = d.payment_id LIMIT 1) p
       ON p.status = 10 OR (p.status = 20 AND d.follows > 0)
  LEFT JOIN LATERAL (SELECT f.created_at FROM oncepay.routing_decision f
                      WHERE f.payment_id = d.payment_id AND f.follows = d.follows LIMIT 1) r ON true
  LEFT JOIN LATERAL (SELECT true AS is_dead FROM oncepay.dead_letter f
                      WHERE f.payment_id = d.payment_id AND f.replayed_at IS NULL LIMIT 1) x ON true
  LEFT JOIN LATERAL (SELECT true AS is_there FROM oncepay.payment_attempt f
                      WHERE f.payment_id = d.payment_id AND f.operation = 1 AND f.number = 1
                        AND f.ordinal = d.follows + 1 LIMIT 1) a ON true
 WHERE a.is_there IS NULL
