-- Which settle commands are not applied: neither this version of the attempt, nor a later attempt, nor its end
-- (cited in the payment's history, or recorded as a stray fact). $1 attempts, $2 versions, $3 payments.
-- -> place (from 1), payment's status, since when, account, was a command of its payment dead-lettered?
SELECT d.place::int4, p.status, coalesce(h.at, a.created_at), a.channel_account, coalesce(x.is_dead, false)
  FROM unnest($1::uuid[], $2::int4[], $3::uuid[]) WITH ORDINALITY AS d(attempt_id, version, payment_id, place)
  JOIN LATERAL (SELECT f.id, f.status, f.applied_attempt, f.applied_version
                  FROM oncepay.payment f WHERE f.id = d.payment_id LIMIT 1) p
       ON p.applied_attempt IS DISTINCT FROM d.attempt_id OR p.applied_version < d.version
  JOIN LATERAL (SELECT f.* FROM oncepay.payment_attempt f WHERE f.id = d.attempt_id LIMIT 1) a ON true
  LEFT JOIN LATERAL (SELECT f.applied_attempt, f.applied_version FROM oncepay.payment_operation f
                      WHERE f.id = a.operation_id LIMIT 1) o ON true
  LEFT JOIN LATERAL (SELECT f.ordinal FROM oncepay.payment_attempt f WHERE f.id = p.applied_attempt LIMIT 1) b ON true
  LEFT JOIN LATERAL (SELECT f.at FROM oncepay.state_history f
                      WHERE f.payment_id = a.payment_id AND f.entity = 2 AND f.id = d.attempt_id
                        AND f.version = d.version LIMIT 1) h ON true
  LEFT JOIN LATERAL (SELECT true AS is_dead FROM oncepay.dead_letter f
                      WHERE f.payment_id = a.payment_id AND f.replayed_at IS NULL LIMIT 1) x ON true
  LEFT JOIN LATERAL (SELECT true AS is_there FROM oncepay.state_history f
                      WHERE a.status >= 50 AND f.payment_id = a.payment_id AND f.entity = 1 AND f.id = a.payment_id
                        AND f.evidence_id = a.evidence_id LIMIT 1) c ON true
  LEFT JOIN LATERAL (SELECT true AS is_there FROM oncepay.stray_fact f
                      WHERE f.payment_id = a.payment_id AND f.attempt_id = a.id LIMIT 1) s ON true
 WHERE NOT coalesce(o.applied_attempt = d.attempt_id AND o.applied_version >= d.version, false)
   AND NOT coalesce(a.operation = 1 AND b.ordinal > a.ordinal AND a.status <> 50, false)
   AND c.is_there IS NULL AND s.is_there IS NULL
