-- Ends attempts that are still CREATED by our own decision: local evidence, NO_SIDE_EFFECT, settle command.
-- $1 attempts, sorted; $2 evidence ids; $3 outbox ids; $4 settle subjects; $5 reasons; $6 actor.
-- -> attempt, payment, version of those that moved.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[])
        AS d(attempt_id, evidence_id, outbox_id, subject, reason)
-- No version is asked for, so whoever held the row may have been away and back: the head is read under the lock.
), held AS MATERIALIZED (
    SELECT a.id, a.history_hash
      FROM d JOIN oncepay.payment_attempt a ON a.id = d.attempt_id
     WHERE a.status = 10
     ORDER BY a.id
       FOR NO KEY UPDATE OF a
), moved AS (
    UPDATE oncepay.payment_attempt a
       SET status = 60, version = a.version + 1, certainty = 2, evidence_id = d.evidence_id, error_code = d.reason,
           history_hash = oncepay.history_link(a.history_hash, 2::smallint, a.id, a.version + 1, 10::smallint,
                                               60::smallint, 'local.failed', d.reason, $6::text, d.evidence_id, now())
      FROM d JOIN held h ON h.id = d.attempt_id
     WHERE a.id = d.attempt_id AND a.status = 10
    RETURNING a.id, a.payment_id, a.version, d.evidence_id, d.outbox_id, d.subject, d.reason,
              h.history_hash AS prev_hash
), proof AS (
    INSERT INTO oncepay.evidence (payment_id, id, attempt_id, source, kind, phase, error_code, strength, proves,
                                  digest, excerpt)
    SELECT payment_id, evidence_id, id, 1, 1, 1, reason, 0, 2, sha256(''::bytea), '{}' FROM moved
), history AS (
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                       evidence_id, prev_hash, at)
    SELECT payment_id, 2, id, version, 10, 60, 'local.failed', reason, $6::text, evidence_id, prev_hash, now()
      FROM moved
), task AS (
    UPDATE oncepay.recovery_task t SET status = 50, version = t.version + 1
      FROM moved m WHERE t.attempt_id = m.id AND t.status <> 50
), command AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
    SELECT outbox_id, 1, subject, 2, id, version, payment_id, NULL FROM moved
)
SELECT id, payment_id, version FROM moved
