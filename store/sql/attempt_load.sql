-- Attempts as the judge needs them, read afresh. $1 attempts; $2 the request that each one's observation
-- answers (NULL: none), left out of `prior`; $3 PSP keeps all results under the key; $4 call limit in ms.
-- -> attempt, payment, account, status, certainty, version, amount, currency, reference (provider key),
--    provider object, handed out, reason, first fence, prior, answered under the key, end of the
--    last sending request, time of success, payment status, merchant, expires_at, method, task id, now, task version.
SELECT a.id, a.payment_id, a.channel_account, a.status, a.certainty, a.version, a.amount, a.currency, a.provider_key,
       a.provider_payment_id, a.handed_out, a.error_code, a.first_sent_at,
       coalesce(r.open_requests > 0, false) AS prior, coalesce(e.answered, false) AS answered, r.last_end,
       s.observed_at, p.status, p.merchant, p.expires_at, a.method_type, t.id, now(), t.version
  FROM unnest($1::uuid[], $2::uuid[]) AS d(attempt_id, request_id)
  JOIN oncepay.payment_attempt a ON a.id = d.attempt_id
  JOIN oncepay.payment p ON p.id = a.payment_id
  LEFT JOIN LATERAL (
        SELECT bool_or(e.closure = 2 AND e.source IN (3, 4)) AS answered
          FROM oncepay.evidence e
         WHERE e.payment_id = a.payment_id AND e.attempt_id = a.id) e ON true
  LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE r.id IS DISTINCT FROM d.request_id AND NOT (coalesce(e.answered, false) AND $3::bool)
                                      AND x.is_closed IS NULL) AS open_requests,
               max(r.send_by) + $4::int8 * interval '1 millisecond' AS last_end
          FROM oncepay.attempt_request r
          LEFT JOIN LATERAL (SELECT true AS is_closed FROM oncepay.evidence x
                              WHERE x.payment_id = r.payment_id AND x.request_id = r.id AND x.closure > 0
                              LIMIT 1) x ON true
         WHERE r.payment_id = a.payment_id AND r.attempt_id = a.id AND r.kind IN (1, 2)) r ON true
  LEFT JOIN LATERAL (
        SELECT e2.observed_at FROM oncepay.evidence e2
         WHERE a.status = 50 AND e2.payment_id = a.payment_id AND e2.id = a.evidence_id LIMIT 1) s ON true
  LEFT JOIN LATERAL (
        SELECT t.id, t.version FROM oncepay.recovery_task t
         WHERE t.attempt_id = a.id AND t.status <> 50 LIMIT 1) t ON true
