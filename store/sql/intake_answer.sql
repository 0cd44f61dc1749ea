-- Stores answers that accept nothing under their keys: refusals that depend on state, and the first
-- answer of a payment that was asked for again under another key. All, or OP001.
-- $1 merchant, $2 key hash, $3 fingerprint, $4 payment it is about (or NULL), $5 status, $6 headers,
-- $7 body, $8 key lifetime in hours (arrays); $9 fingerprint version. -> one row: true.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::uuid[], $5::int2[], $6::text[], $7::bytea[],
                         $8::int4[])
        AS d(merchant, key_hash, fingerprint, payment_id, status, headers, body, lifetime_h)),
k AS (
    INSERT INTO oncepay.idempotency_key AS i (merchant, operation, key_hash, fingerprint, fingerprint_version,
                                              payment_id, answer_status, answer_headers, answer_body, expires_at)
    SELECT d.merchant, 1, d.key_hash, d.fingerprint, $9::int2, d.payment_id, d.status, d.headers, d.body,
           now() + make_interval(hours => d.lifetime_h)
      FROM d ORDER BY d.merchant, d.key_hash
        ON CONFLICT (merchant, operation, key_hash) DO UPDATE
       SET fingerprint = excluded.fingerprint, fingerprint_version = excluded.fingerprint_version,
           payment_id = excluded.payment_id, answer_status = excluded.answer_status,
           answer_headers = excluded.answer_headers, answer_body = excluded.answer_body,
           expires_at = excluded.expires_at, created_at = now()
     WHERE i.expires_at <= now()
    RETURNING i.key_hash)
SELECT CASE WHEN (SELECT count(*) FROM k) = (SELECT count(*) FROM d) THEN true
            ELSE oncepay.lost_race('idempotency key') END
