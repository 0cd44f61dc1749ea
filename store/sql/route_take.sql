-- Stores first attempts: payment CREATED -> AUTHORIZING by version, attempt with its key and bytes, the decision
-- with its reasons, history, command to create; for all of them or for none (OP001).
-- $1 payment, $2 version read, $3 attempt, $4 ordinal, $5 account, $6 provider key, $7 request hash,
-- $8 request bytes, $9 decision id, $10 reasons (JSON), $11 command id, $12 command subject (arrays);
-- $13 actor, $14 routing version. -> one row: how many.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int4[], $3::uuid[], $4::int4[], $5::text[], $6::text[], $7::bytea[],
                         $8::bytea[], $9::uuid[], $10::text[], $11::uuid[], $12::text[])
        AS d(payment_id, version, attempt_id, ordinal, account, provider_key, request_hash, request_bytes,
             decision_id, reasons, command_id, command_subject)
     ORDER BY payment_id),
moved AS (
    UPDATE oncepay.payment p
       SET status = 20, version = p.version + 1,
           history_hash = oncepay.history_link(p.history_hash, 1::int2, p.id, p.version + 1, p.status, 20::int2, 'routed',
                                               'first_that_serves', $13::text, NULL::uuid, now())
      FROM d WHERE p.id = d.payment_id AND p.version = d.version AND p.status = 10
    RETURNING d.*, p.version AS new_version, p.history_hash, p.method_type, p.amount, p.currency,
              oncepay.history_link(p.history_hash, 2::int2, d.attempt_id, 1, 0::int2, 10::int2, 'routed',
                                   'first_that_serves', $13::text, NULL::uuid, now()) AS attempt_hash,
              (SELECT o.history_hash FROM oncepay.payment o WHERE o.id = p.id) AS prev_hash),
gate AS MATERIALIZED (
    SELECT CASE WHEN count(*) = (SELECT count(*) FROM d) THEN true ELSE oncepay.lost_race('payment') END AS ok FROM moved),
a AS (
    INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal, channel_account, method_type,
                                         amount, currency, provider_key, request_hash, request_bytes, status,
                                         certainty, routing_version, version, history_hash)
    SELECT m.attempt_id, m.payment_id, 1, 1, m.ordinal, m.account, m.method_type, m.amount, m.currency, m.provider_key,
           m.request_hash, m.request_bytes, 10, 2, $14::text, 1, m.attempt_hash
      FROM moved m, gate g WHERE g.ok
    RETURNING id),
h AS (
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                       routing_version, prev_hash, at)
    SELECT m.payment_id, 1, m.payment_id, m.new_version, 10, 20, 'routed', 'first_that_serves', $13::text, $14::text,
           m.prev_hash, now()
      FROM moved m
     UNION ALL
    SELECT m.payment_id, 2, m.attempt_id, 1, 0, 10, 'routed', 'first_that_serves', $13::text, $14::text,
           m.history_hash, now()
      FROM moved m),
r AS (
    INSERT INTO oncepay.routing_decision (id, payment_id, follows, channel_account, routing_version, reasons)
    SELECT m.decision_id, m.payment_id, m.ordinal - 1, m.account, $14::text, m.reasons::jsonb FROM moved m),
o AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
    SELECT m.command_id, 1, m.command_subject, 2, m.attempt_id, 1, m.payment_id, NULL FROM moved m)
SELECT count(*) FROM a
