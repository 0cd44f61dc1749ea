-- The SENDING fence of a batch of creates (protocol C2): attempt CREATED -> SENDING by CAS, request
-- row with send_by, one fence_batch row; committed before a byte leaves.
-- $1 attempts, sorted; $2 request ids; $3 fence_batch id; $4 account; $5 actor; $6 ms from now to send_by;
-- $7 ms from now to when recover takes over.
-- What was proven unsent and waits for its due_at is not sent before it, whoever repeats the command; when it is
-- sent, the task that waited for that is over.
-- -> one row per attempt found: attempt, payment, outcome (1 fenced, 2 not CREATED any more or not due, 3 its
--    start_by or expires_at has passed, 4 the target is held, 5 the payment is not AUTHORIZING),
--    version after the fence, request id, provider key, request bytes, amount, currency, method, merchant.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS d(attempt_id, request_id)
), seen AS MATERIALIZED (
    SELECT d.attempt_id, d.request_id, a.payment_id, a.version, a.provider_key, a.request_bytes, a.amount,
           a.currency, a.method_type, a.history_hash AS prev_hash, p.merchant,
           CASE WHEN a.status <> 10 OR a.channel_account <> $4::text THEN 2
                WHEN w.is_waiting THEN 2
                WHEN p.status <> 20 THEN 5
                WHEN p.start_by <= now() OR p.expires_at <= now() THEN 3
                WHEN t.hold IS NOT NULL THEN 4
                ELSE 1 END AS outcome
      FROM d
      JOIN oncepay.payment_attempt a ON a.id = d.attempt_id
      JOIN oncepay.payment p ON p.id = a.payment_id
      LEFT JOIN LATERAL (
           SELECT f.hold FROM oncepay.active_payment f
            WHERE f.merchant = p.merchant AND f.target_kind = p.target_kind AND f.target_id = p.target_id LIMIT 1) t ON true
      LEFT JOIN LATERAL (
           SELECT true AS is_waiting FROM oncepay.recovery_task f
            WHERE f.attempt_id = a.id AND f.status <> 50 AND f.due_at > now() LIMIT 1) w ON true
), moved AS (
    UPDATE oncepay.payment_attempt a
       SET status = 20, version = a.version + 1, certainty = 1, first_sent_at = coalesce(a.first_sent_at, now()),
           history_hash = oncepay.history_link(a.history_hash, 2::smallint, a.id, a.version + 1, 10::smallint,
                                               20::smallint, 'fence', 'about to be sent', $5::text, NULL, now())
      FROM seen
     WHERE a.id = seen.attempt_id AND a.version = seen.version AND a.status = 10 AND seen.outcome = 1
    RETURNING a.id, a.payment_id, a.version, seen.prev_hash, seen.request_id
), history AS (
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                       prev_hash, at)
    SELECT payment_id, 2, id, version, 10, 20, 'fence', 'about to be sent', $5::text, prev_hash, now()
      FROM moved
), request AS (
    INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind, send_by, worker)
    SELECT payment_id, request_id, id, 1, now() + $6::int8 * interval '1 millisecond', $5::text FROM moved
), fence AS (
    INSERT INTO oncepay.fence_batch (id, channel_account, worker, attempts, due_at)
    SELECT $3::uuid, $4::text, $5::text, array_agg(id ORDER BY id), now() + $7::int8 * interval '1 millisecond'
      FROM moved
    HAVING count(*) > 0
), waited AS (
    UPDATE oncepay.recovery_task t SET status = 50, version = t.version + 1
      FROM moved m WHERE t.attempt_id = m.id AND t.status <> 50
)
SELECT s.attempt_id, s.payment_id,
       CASE WHEN m.id IS NOT NULL THEN 1 WHEN s.outcome = 1 THEN 2 ELSE s.outcome END AS outcome,
       coalesce(m.version, s.version), s.request_id, s.provider_key, s.request_bytes, s.amount, s.currency,
       s.method_type, s.merchant
  FROM seen s
  LEFT JOIN moved m ON m.id = s.attempt_id
