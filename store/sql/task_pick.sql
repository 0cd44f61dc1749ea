-- Due tasks, oldest first, locked; runs inside begin.sql … commit.sql (protocol G). What another worker holds is
-- skipped. A LEASED task is due when its lease has run out: its due_at is the lease's end.
-- $1 tasks that task_due.sql named; $2 how many; $3 PSP keeps all results under the key; $4 call limit in ms.
-- -> task, version, status, purpose, step, claims, stored error, policy version, first unknown, attempt, payment,
--    attempt status, certainty, attempt version, amount, currency, provider key, provider object, handed out,
--    first fence, request bytes, method, prior, answered under the key, last end, payment status, expires_at,
--    start_by, sending requests so far, merchant, reason, escalated_at, now.
WITH due AS MATERIALIZED (
    SELECT * FROM oncepay.recovery_task
     WHERE id = ANY ($1::uuid[]) AND status IN (10, 20, 40) AND due_at <= now()
     ORDER BY due_at, id
     LIMIT $2::int4
       FOR UPDATE SKIP LOCKED
)
SELECT t.id, t.version, t.status, t.purpose, t.step, t.claims, t.stored_error, t.policy_version, t.first_unknown_at,
       a.id, a.payment_id, a.status, a.certainty, a.version, a.amount, a.currency, a.provider_key,
       a.provider_payment_id, a.handed_out, a.first_sent_at, a.request_bytes, a.method_type,
       coalesce(r.open_requests > 0, false) AS prior, coalesce(e.answered, false) AS answered, r.last_end, p.status,
       p.expires_at, p.start_by, coalesce(r.sends, 0)::int4, p.merchant, a.error_code, t.escalated_at, now()
  FROM due t
  JOIN oncepay.payment_attempt a ON a.id = t.attempt_id
  JOIN oncepay.payment p ON p.id = a.payment_id
  LEFT JOIN LATERAL (
        SELECT bool_or(e.closure = 2 AND e.source IN (3, 4)) AS answered
          FROM oncepay.evidence e
         WHERE e.payment_id = a.payment_id AND e.attempt_id = a.id) e ON true
  LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE NOT (coalesce(e.answered, false) AND $3::bool)
                                      AND x.is_closed IS NULL) AS open_requests,
               count(*) AS sends, max(r.send_by) + $4::int8 * interval '1 millisecond' AS last_end
          FROM oncepay.attempt_request r
          LEFT JOIN LATERAL (SELECT true AS is_closed FROM oncepay.evidence x
                              WHERE x.payment_id = r.payment_id AND x.request_id = r.id AND x.closure > 0
                              LIMIT 1) x ON true
         WHERE r.payment_id = a.payment_id AND r.attempt_id = a.id AND r.kind IN (1, 2)) r ON true
