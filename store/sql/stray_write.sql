-- Records a stray fact, and raises its payment's version with history and event; the status stays.
-- $1 stray fact, $2 payment, $3 attempt, $4 kind, $5 account, $6 provider object, $7 amount,
-- $8 currency, $9 evidence; $10 payment version read, $11 its status, $12 attempt version that
-- counts as applied (NULL: none), $13 history event, $14 why, $15 actor; $16 outbox id,
-- $17 subject, $18 body, $19 headers.
-- -> one row; OP001 if the payment moved.
WITH moved AS (
    UPDATE oncepay.payment p
       SET version = p.version + 1,
           applied_attempt = CASE WHEN $12::int4 IS NULL THEN p.applied_attempt ELSE $3::uuid END,
           applied_version = coalesce($12::int4, p.applied_version),
           history_hash = oncepay.history_link(p.history_hash, 1::int2, p.id, p.version + 1,
                                               p.status, p.status, $13::text, $14::text,
                                               $15::text, $9::uuid, now())
     WHERE p.id = $2::uuid AND p.version = $10::int4 AND p.status = $11::int2
    RETURNING p.id, p.version, p.status,
              (SELECT o.history_hash FROM oncepay.payment o WHERE o.id = p.id) AS prev_hash),
history AS (
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status,
                                       event, why, actor, evidence_id, prev_hash)
    SELECT m.id, 1, m.id, m.version, m.status, m.status, $13::text, $14::text, $15::text, $9::uuid,
           m.prev_hash
      FROM moved m),
fact AS (
    INSERT INTO oncepay.stray_fact (id, payment_id, attempt_id, kind, channel_account,
                                    provider_object, amount, currency, evidence_id)
    SELECT $1::uuid, m.id, $3::uuid, $4::int2, $5::text, $6::text, $7::int8, $8::text, $9::uuid
      FROM moved m),
event AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body,
                                headers)
    SELECT $16::uuid, 2, $17::text, 1, m.id, m.version, m.id, $18::bytea, $19::text FROM moved m)
SELECT CASE WHEN EXISTS (SELECT FROM moved) THEN true
            ELSE oncepay.lost_race('stray fact: its payment moved') END
