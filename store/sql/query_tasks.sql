-- The open recovery tasks of a payment. $1 payment.
-- -> task, attempt, purpose, status, due_at (NULL: never by itself), lease owner, step, claims, stored error,
--    policy version, first unknown, escalated at, version, created_at
SELECT t.id, t.attempt_id, t.purpose, t.status, nullif(t.due_at, 'infinity'), t.lease_owner, t.step, t.claims,
       t.stored_error, t.policy_version, t.first_unknown_at, t.escalated_at, t.version, t.created_at
  FROM oncepay.payment_attempt a
  JOIN LATERAL (SELECT f.* FROM oncepay.recovery_task f
                 WHERE f.attempt_id = a.id AND f.status <> 50 LIMIT 1) t ON true
 WHERE a.payment_id = $1::uuid
 ORDER BY t.created_at, t.id
