-- Which create commands have not moved their attempt: it is still CREATED at that version, and no task of it waits
-- for its time. $1 attempts, $2 versions.
-- -> place (from 1), payment's status, since when, account, was a command of its payment dead-lettered?
SELECT d.place::int4, p.status, coalesce(h.at, a.created_at), a.channel_account, coalesce(x.is_dead, false)
  FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY AS d(attempt_id, version, place)
  JOIN LATERAL (SELECT f.payment_id, f.status, f.version, f.channel_account, f.created_at
                  FROM oncepay.payment_attempt f WHERE f.id = d.attempt_id LIMIT 1) a
       ON a.status = 10 AND a.version <= d.version
  JOIN LATERAL (SELECT f.status FROM oncepay.payment f WHERE f.id = a.payment_id LIMIT 1) p ON true
  LEFT JOIN LATERAL (SELECT f.at FROM oncepay.state_history f
                      WHERE f.payment_id = a.payment_id AND f.entity = 2 AND f.id = d.attempt_id
                        AND f.version = a.version LIMIT 1) h ON true
  LEFT JOIN LATERAL (SELECT true AS is_dead FROM oncepay.dead_letter f
                      WHERE f.payment_id = a.payment_id AND f.replayed_at IS NULL LIMIT 1) x ON true
  LEFT JOIN LATERAL (SELECT true AS is_there FROM oncepay.recovery_task f
                      WHERE f.attempt_id = d.attempt_id AND f.status <> 50 AND f.due_at > now() LIMIT 1) t ON true
 WHERE t.is_there IS NULL
