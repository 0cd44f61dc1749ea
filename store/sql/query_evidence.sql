-- What was observed about a payment, in order. $1 payment.
-- -> 0 evidence, 1 attempt, 2 request, 3 source, 4 kind, 5 phase, 6 http status, 7 error code, 8 provider status,
--    9 provider object, 10 provider event, 11 reference, 12 amount, 13 currency, 14 observed at, 15 strength,
--    16 proves, 17 closure, 18 created_at
SELECT e.id, e.attempt_id, e.request_id, e.source, e.kind, e.phase, e.http_status, e.error_code, e.provider_status,
       e.provider_object, e.provider_event,
       CASE e.reference WHEN '=' THEN a.provider_key ELSE e.reference END, e.amount, e.currency, e.observed_at,
       e.strength, e.proves, e.closure, e.created_at
  FROM oncepay.evidence e
  LEFT JOIN oncepay.payment_attempt a ON a.id = e.attempt_id
 WHERE e.payment_id = $1::uuid
 ORDER BY e.created_at, e.id
