-- The HTTP requests of a payment, in their order, with how evidence closes each. $1 payment.
-- -> request, attempt, kind, step, send_by, worker, started_at, evidence rows that name it, closure
SELECT r.id, r.attempt_id, r.kind, r.step, r.send_by, r.worker, r.started_at, e.count, e.closure
  FROM oncepay.attempt_request r
  LEFT JOIN LATERAL (SELECT count(*) AS count, coalesce(max(x.closure), 0::int2) AS closure FROM oncepay.evidence x
                      WHERE x.payment_id = r.payment_id AND x.request_id = r.id) e ON true
 WHERE r.payment_id = $1::uuid
 ORDER BY r.started_at, r.id
