-- Fence batches whose worker did not finish in time, and their attempts that are still SENDING.
-- $1 account; $2 how many batches. Locks the batches; runs inside begin.sql … commit.sql.
-- -> fence batch, attempt (NULL: none is left in SENDING), request of that attempt's last sending.
WITH due AS MATERIALIZED (
    SELECT id, attempts FROM oncepay.fence_batch
     WHERE channel_account = $1::text AND due_at <= now()
     ORDER BY due_at, id
     LIMIT $2::int4
       FOR UPDATE SKIP LOCKED
)
SELECT due.id, a.id, r.id
  FROM due
  LEFT JOIN LATERAL (SELECT a.id, a.payment_id FROM unnest(due.attempts) AS x(id)
                       JOIN oncepay.payment_attempt a ON a.id = x.id AND a.status = 20) a ON true
  LEFT JOIN LATERAL (SELECT r.id FROM oncepay.attempt_request r
                      WHERE r.payment_id = a.payment_id AND r.attempt_id = a.id AND r.kind = 1
                      ORDER BY r.id DESC LIMIT 1) r ON true
