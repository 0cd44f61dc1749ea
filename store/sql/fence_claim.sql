-- Takes fence batches whose worker did not finish in time, under a lease, and names their attempts that are still
-- SENDING by this fence, not by a later one (protocol C2). $1 account; $2 how many batches; $3 lease in ms.
-- -> fence batch, attempt (NULL: none is left in SENDING), the request that it was fenced for.
WITH due AS MATERIALIZED (
    SELECT id FROM oncepay.fence_batch
     WHERE channel_account = $1::text AND due_at <= now()
     ORDER BY due_at, id
     LIMIT $2::int4
       FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE oncepay.fence_batch f
       SET due_at = now() + $3::int8 * interval '1 millisecond', version = f.version + 1
     WHERE f.id = ANY (ARRAY(SELECT id FROM due))
    RETURNING f.id, f.attempts, f.created_at
)
SELECT c.id, a.id, a.request_id
  FROM claimed c
  LEFT JOIN LATERAL (SELECT a.id, r.id AS request_id FROM unnest(c.attempts) AS x(id)
                       JOIN oncepay.payment_attempt a ON a.id = x.id AND a.status = 20
                       JOIN LATERAL (SELECT r.id, r.started_at FROM oncepay.attempt_request r
                                      WHERE r.payment_id = a.payment_id AND r.attempt_id = a.id AND r.kind = 1
                                      ORDER BY r.id DESC LIMIT 1) r ON r.started_at <= c.created_at) a ON true
 ORDER BY c.id
