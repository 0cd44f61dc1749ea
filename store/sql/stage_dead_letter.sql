-- Keeps one message or command that cannot be handled, and opens its case if asked.
-- $1 id, $2 consumer, $3 subject, $4 sequence, $5 deliveries, $6 headers, $7 body, $8 method token,
-- $9 code, $10 field, $11 problem (JSON), $12 payment or NULL, $13 case id or NULL, $14 case kind,
-- $15 case priority, $16 stored at. A repeat of the same id changes nothing. -> no rows.
WITH c AS (
    INSERT INTO oncepay.manual_case (id, kind, payment_id, attempt_id, stage, priority, reason)
    SELECT $13::uuid, $14::smallint, $12::uuid, $1::uuid, $2::text, $15::smallint, $9::text
     WHERE $13::uuid IS NOT NULL
        ON CONFLICT DO NOTHING
)
INSERT INTO oncepay.dead_letter (id, consumer, subject, sequence, deliveries, headers, body, method_token, code,
                                 field, problem, payment_id, case_id, stored_at)
VALUES ($1::uuid, $2::text, $3::text, $4::int8, $5::int8, $6::text, $7::bytea, $8::text, $9::text,
        $10::text, $11::text, $12::uuid, $13::uuid, $16::timestamptz)
ON CONFLICT (id) DO NOTHING
