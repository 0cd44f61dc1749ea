-- Takes the lease on picked tasks, with the request row of the call that follows in the same commit.
-- $1 tasks, sorted; $2 versions; $3 next status (20 LEASED, 30 PAUSED, 50 RESOLVED); $4 lease in ms;
-- $5 request ids (NULL: no call); $6 request kinds; $7 payments; $8 attempts; $9 owner; $10 ms to send_by;
-- $11 outbox ids of create commands to write again (NULL: none); $12 their subjects; $13 attempt versions.
-- -> task and new version of those that moved.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int4[], $3::int2[], $5::uuid[], $6::int2[], $7::uuid[], $8::uuid[],
                         $11::uuid[], $12::text[], $13::int4[])
        AS d(task_id, version, next_status, request_id, kind, payment_id, attempt_id, outbox_id, subject,
             attempt_version)
), moved AS (
    UPDATE oncepay.recovery_task t
       SET status = d.next_status, version = t.version + 1, claims = t.claims + 1, lease_owner = $9::text,
           due_at = CASE WHEN d.next_status = 20 THEN now() + $4::int8 * interval '1 millisecond' ELSE t.due_at END
      FROM d
     WHERE t.id = ANY ($1::uuid[]) AND t.id = d.task_id AND t.version = d.version
    RETURNING t.id, t.version, d.request_id, d.kind, d.payment_id, d.attempt_id, d.outbox_id, d.subject,
              d.attempt_version
), request AS (
    INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind, send_by, worker)
    SELECT payment_id, request_id, attempt_id, kind, now() + $10::int8 * interval '1 millisecond', $9::text
      FROM moved WHERE request_id IS NOT NULL
), command AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
    SELECT outbox_id, 1, subject, 2, attempt_id, attempt_version, payment_id, NULL FROM moved WHERE outbox_id IS NOT NULL
)
SELECT id, version FROM moved
