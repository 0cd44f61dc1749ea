-- Closes the cases that only asked what became of an attempt (unknown 1, task paused 7, pending too long 8), now
-- that it is final; one event per attempt. Runs in the transaction of the end. $1 attempts; $2 outbox ids;
-- $3 subjects; $4 bodies. -> ids of closed cases.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[])
        AS d(attempt_id, outbox_id, subject, body)
), closed AS (
    UPDATE oncepay.manual_case c
       SET status = 50, version = c.version + 1, closed_at = now(), close_reason = 'the attempt ended'
      FROM d JOIN oncepay.payment_attempt a ON a.id = d.attempt_id AND a.status >= 50
     WHERE c.attempt_id = ANY ($1::uuid[]) AND c.attempt_id = d.attempt_id AND c.kind IN (1, 7, 8)
       AND c.status + 0 = 10 -- by the attempt, not by the index of all open cases
    RETURNING c.id, c.attempt_id, c.payment_id
), event AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
    SELECT DISTINCT ON (d.attempt_id) d.outbox_id, 2, d.subject, 1, c.payment_id, 0, c.payment_id, d.body, ''
      FROM d JOIN closed c ON c.attempt_id = d.attempt_id
)
SELECT id FROM closed
