-- Keeps producers' messages that were refused as invalid, without a case. $1 id (made from the message:
-- a redelivery writes nothing new), $2 subject, $3 sequence, $4 deliveries, $5 headers, $6 body,
-- $7 method token, $8 code, $9 field, $10 problem (JSON), $11 stored at (arrays). -> no rows.
INSERT INTO oncepay.dead_letter (id, consumer, subject, sequence, deliveries, headers, body, method_token, code,
                                 field, problem, stored_at)
SELECT d.id, 'intake', d.subject, d.sequence, d.deliveries, d.headers, d.body, d.method_token, d.code, d.field,
       d.problem, d.stored_at
  FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::int8[], $5::text[], $6::bytea[], $7::text[], $8::text[],
              $9::text[], $10::text[], $11::timestamptz[])
       AS d(id, subject, sequence, deliveries, headers, body, method_token, code, field, problem, stored_at)
    ON CONFLICT (id) DO NOTHING
