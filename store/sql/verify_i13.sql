-- I13: every accepted request is final, or has a task, a timer, a case, a fence that recover takes
-- over, a command younger than its deadline, or one that the relay follows as stuck.
-- $1 that deadline in seconds. Result as in verify_i01.sql.
WITH states (code, name) AS (VALUES
    (10, 'CREATED'), (20, 'AUTHORIZING'), (25, 'CANCELING'), (30, 'AUTHORIZED'), (35, 'VOIDING'),
    (40, 'CAPTURING'), (50, 'CAPTURED'), (60, 'REFUNDING'), (70, 'REFUNDED'), (80, 'REVERSED'),
    (90, 'FAILED'), (95, 'CANCELED')),
young AS MATERIALIZED (
    -- Outbox ids are drawn just before they are written: five minutes are ample.
    SELECT DISTINCT o.payment_id
      FROM oncepay.outbox o
     WHERE o.kind = 1
       AND o.id >= oncepay.uuid_floor(now() - ($1::int8 + 300) * interval '1 second')
       AND o.created_at > now() - $1::int8 * interval '1 second'),
fenced AS MATERIALIZED (
    SELECT DISTINCT a.payment_id
      FROM oncepay.fence_batch f, unnest(f.attempts) AS u(id)
      JOIN oncepay.payment_attempt a ON a.id = u.id
     WHERE f.due_at > now() - $1::int8 * interval '1 second'),
bad AS (
    SELECT p.id, format('%s since version %s, and nobody has it in hand', s.name, p.version) AS what
      FROM oncepay.payment p
      JOIN states s ON s.code = p.status
     WHERE p.status IN (10, 20, 25, 35, 40, 60)
       AND p.id NOT IN (SELECT y.payment_id FROM young y WHERE y.payment_id IS NOT NULL)
       AND p.id NOT IN (SELECT f.payment_id FROM fenced f)
       AND NOT EXISTS (SELECT FROM oncepay.recovery_task t
                        WHERE t.payment_id = p.id AND t.status <> 50)
       AND NOT EXISTS (SELECT FROM oncepay.payment_timer t WHERE t.payment_id = p.id)
       AND NOT EXISTS (SELECT FROM oncepay.manual_case c
                        WHERE c.payment_id = p.id AND c.status = 10)
       AND NOT EXISTS (SELECT FROM oncepay.stuck_command c
                        WHERE c.payment_id = p.id
                          AND c.next_at > now() - $1::int8 * interval '1 second')
    UNION ALL
    SELECT k.payment_id, 'it was accepted under a key and does not exist'
      FROM oncepay.idempotency_key k
     WHERE k.payment_id IS NOT NULL AND k.answer_status = 202
       AND NOT EXISTS (SELECT FROM oncepay.payment p WHERE p.id = k.payment_id))
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
