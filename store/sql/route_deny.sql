-- Tells settle that no account can take these payments; the payments themselves are not touched. All or OP001.
-- $1 payment, $2 version read, $3 ordinal that this follows, $4 decision id, $5 reasons (JSON), $6 command id,
-- $7 command subject (arrays); $8 routing version. -> one row: true.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::uuid[], $5::text[], $6::uuid[], $7::text[])
        AS d(payment_id, version, follows, decision_id, reasons, command_id, command_subject)
     ORDER BY payment_id),
r AS (
    INSERT INTO oncepay.routing_decision (id, payment_id, follows, routing_version, reasons)
    SELECT d.decision_id, d.payment_id, d.follows, $8::text, d.reasons::jsonb
      FROM d JOIN LATERAL (SELECT FROM oncepay.payment p
                            WHERE p.id = d.payment_id AND p.version = d.version AND p.status = 10 LIMIT 1) p ON true
    RETURNING payment_id),
o AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
    SELECT d.command_id, 1, d.command_subject, 5, d.decision_id, d.follows, d.payment_id, NULL FROM d)
SELECT CASE WHEN (SELECT count(*) FROM r) = (SELECT count(*) FROM d) THEN true ELSE oncepay.lost_race('payment') END
