-- Stores a batch of judged observations: evidence always, the attempt by CAS, and for what the CAS moved
-- history, settle command, provider object, recovery task. An attempt that ends resolves its task.
-- $1 n: number of the row in the caller's batch; $2 attempt; $3 payment; $4 version that the caller judged;
-- $5 from; $6 next status (NULL: evidence only); $7 certainty; $8 evidence id; $9 request id; $10 source;
-- $11 kind; $12 phase; $13 http status; $14 error code; $15 provider status; $16 provider object;
-- $17 provider event; $18 reference; $19 amount; $20 currency; $21 observed at; $22 strength; $23 proves;
-- $24 closure; $25 digest; $26 excerpt; $27 event; $28 why; $29 attempt's reason (NULL: keep);
-- $30 decline class; $31 handed out; $32 settle outbox id (NULL: none); $33 settle subject;
-- $34 task id (NULL: none); $35 task due in ms (NULL: never by itself); $36 task purpose; $37 policy version;
-- $38 stored error; $39 actor (one for all); $40 account (one for all); $41 version that the attempt's task must
-- have (NULL: any). Arrays sorted by attempt.
-- -> n of each row whose attempt moved, and its new version. OP001: an end that rests on there being no further
-- request (B1), and the task was claimed for one: a claim raises the task, and its row is what both wait for.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::int4[], $5::int2[], $6::int2[], $7::int2[],
                         $8::uuid[], $9::uuid[], $10::int2[], $11::int2[], $12::int2[], $13::int2[], $14::text[],
                         $15::text[], $16::text[], $17::text[], $18::text[], $19::int8[], $20::text[],
                         $21::timestamptz[], $22::int2[], $23::int2[], $24::int2[], $25::bytea[], $26::text[],
                         $27::text[], $28::text[], $29::text[], $30::int2[], $31::bool[], $32::uuid[], $33::text[],
                         $34::uuid[], $35::int8[], $36::int2[], $37::text[], $38::bool[], $41::int4[])
        AS d(n, attempt_id, payment_id, version, from_status, next_status, certainty, evidence_id, request_id, source,
             kind, phase, http_status, error_code, provider_status, provider_object, provider_event, reference,
             amount, currency, observed_at, strength, proves, closure, digest, excerpt, event, why, reason,
             decline_class, handed_out, outbox_id, subject, task_id, task_due_ms, purpose, policy_version,
             stored_error, task_version)
), proof AS (
    INSERT INTO oncepay.evidence (payment_id, id, attempt_id, request_id, source, kind, phase, http_status, error_code,
                                  provider_status, provider_object, provider_event, reference, amount, currency,
                                  observed_at, strength, proves, closure, digest, excerpt)
    SELECT payment_id, evidence_id, attempt_id, request_id, source, kind, phase, http_status, error_code,
           provider_status, provider_object, provider_event, reference, amount, currency, observed_at, strength,
           proves, closure, digest, excerpt
      FROM d
     WHERE 0 = (SELECT count(*) FROM oncepay.evidence x WHERE x.payment_id = d.payment_id AND x.id = d.evidence_id)
), moved AS (
    UPDATE oncepay.payment_attempt a
       SET status = d.next_status, version = a.version + 1, certainty = d.certainty,
           evidence_id = CASE WHEN d.proves IS NOT NULL THEN d.evidence_id ELSE a.evidence_id END,
           provider_payment_id = coalesce(a.provider_payment_id, d.provider_object),
           error_code = coalesce(d.reason, a.error_code),
           decline_class = CASE WHEN d.decline_class <> 0 THEN d.decline_class ELSE a.decline_class END,
           handed_out = a.handed_out OR d.handed_out,
           policy_version = coalesce(a.policy_version, d.policy_version),
           history_hash = oncepay.history_link(a.history_hash, 2::smallint, a.id, a.version + 1, d.from_status,
                                               d.next_status, d.event, d.why, $39::text, d.evidence_id, now())
      FROM d JOIN oncepay.payment_attempt o ON o.id = d.attempt_id
     WHERE a.id = d.attempt_id AND a.version = d.version AND a.status = d.from_status AND d.next_status IS NOT NULL
    RETURNING a.id, a.payment_id, a.version, a.method_type, a.operation,
              a.amount AS attempt_amount, a.currency AS attempt_currency, d.n, d.from_status, d.next_status,
              d.evidence_id, d.event, d.why, d.outbox_id, d.subject, d.provider_object, d.task_id, d.task_due_ms,
              d.purpose, d.policy_version, d.stored_error, d.task_version,
              o.history_hash AS prev_hash, o.provider_payment_id AS known_object
), history AS (
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                       evidence_id, policy_version, prev_hash, at)
    SELECT payment_id, 2, id, version, from_status, next_status, event, why, $39::text, evidence_id, policy_version,
           prev_hash, now()
      FROM moved
), object AS (
    INSERT INTO oncepay.provider_object (channel_account, object, attempt_id, payment_id)
    SELECT $40::text, provider_object, id, payment_id FROM moved WHERE provider_object IS NOT NULL AND known_object IS NULL
), further_object AS (
    INSERT INTO oncepay.provider_object (channel_account, object, attempt_id, payment_id)
    SELECT $40::text, provider_object, id, payment_id FROM moved WHERE provider_object <> known_object
        ON CONFLICT DO NOTHING
), command AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
    SELECT outbox_id, 1, subject, 2, id, version, payment_id, NULL FROM moved WHERE outbox_id IS NOT NULL
), task AS (
    INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id, channel_account, method_type, operation, amount,
                                       currency, purpose, status, due_at, stored_error, policy_version, escalated_at,
                                       version)
    SELECT task_id, payment_id, id, $40::text, method_type, operation, attempt_amount, attempt_currency, purpose,
           CASE WHEN task_due_ms IS NULL THEN 40 ELSE 10 END,
           CASE WHEN task_due_ms IS NULL THEN 'infinity' ELSE now() + task_due_ms * interval '1 millisecond' END,
           stored_error, policy_version, CASE WHEN task_due_ms IS NULL THEN now() END, 1
      FROM moved
     WHERE task_id IS NOT NULL
        ON CONFLICT (attempt_id) WHERE status <> 50 DO NOTHING
), resolved AS (
    UPDATE oncepay.recovery_task t SET status = 50, version = t.version + 1
      FROM moved m
     WHERE t.attempt_id = m.id AND t.status <> 50 AND m.next_status >= 50
       AND t.version = coalesce(m.task_version, t.version)
    RETURNING t.attempt_id
)
SELECT n, version FROM moved
 WHERE CASE WHEN task_version IS NULL THEN true
            WHEN id IN (SELECT attempt_id FROM resolved) THEN true
            ELSE oncepay.lost_race('recovery task') END
