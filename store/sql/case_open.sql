-- Opens cases (at most one per attempt and kind, for ever) and announces those that are new.
-- $1 case ids; $2 kinds; $3 payments; $4 attempts; $5 accounts; $6 priorities; $7 reasons; $8 attempt version that
-- must stand (NULL: any), so that a case follows only from what was stored (what only asks how an attempt ends is
-- not opened on one that has ended); $9 outbox ids; $10 subjects; $11 bodies. -> ids of new cases.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int2[], $3::uuid[], $4::uuid[], $5::text[], $6::int2[], $7::text[],
                         $8::int4[], $9::uuid[], $10::text[], $11::bytea[])
        AS d(id, kind, payment_id, attempt_id, account, priority, reason, version, outbox_id, subject, body)
     WHERE 1 = (SELECT count(*) FROM oncepay.payment_attempt a
                 WHERE a.id = d.attempt_id AND (d.version IS NULL OR a.version = d.version)
                   AND (d.kind NOT IN (1, 7, 8) OR a.status < 50))
), opened AS (
    INSERT INTO oncepay.manual_case (id, kind, payment_id, attempt_id, channel_account, priority, reason)
    SELECT id, kind, payment_id, attempt_id, account, priority, reason FROM d
        ON CONFLICT DO NOTHING
    RETURNING id
), event AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
    SELECT d.outbox_id, 2, d.subject, 1, d.payment_id, 0, d.payment_id, d.body, ''
      FROM d JOIN opened o ON o.id = d.id
)
SELECT id FROM opened
