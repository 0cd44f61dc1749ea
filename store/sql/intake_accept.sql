-- Accepts payments: key with its first answer (without the body: request and id tell it again), pointer,
-- payment, history, event and command, for all of them or for none (OP001, or the unique key of an
-- idempotency key, a pointer or an out_trade_no: read again and decide again).
-- $1 payment id, $2 merchant, $3 out_trade_no, $4 target kind, $5 target id (NULL: none), $6 amount,
-- $7 currency, $8 method type, $9 method token, $10 token realm, $11 capture mode, $12 start by,
-- $13 expires at, $14 return URL, $15 metadata, $16 traceparent;
-- $17 key hash, $18 fingerprint, $19 answer status, $20 answer headers, $21 key lifetime in hours;
-- $22 payment that the pointer names now, $23 pointer's version (0: there is no pointer yet);
-- $24 event id, $25 event subject, $26 event body, $27 event headers, $28 command id, $29 command subject,
-- $30 whether its key has a row that has expired (arrays, one element per payment);
-- $31 actor, $32 fingerprint version. -> one row: how many.
--
-- Locks go key, pointer, payment (protocol H7), each sorted: a step reads the gate of the step before.
-- All or nothing, so history and outbox come from what was given, without a join.
WITH d AS MATERIALIZED (
    SELECT *,
           oncepay.history_link(decode(repeat('00', 32), 'hex'), 1::int2, id, 1, 0::int2, 10::int2, 'accepted',
                                'new_request', $31::text, NULL::uuid, now()) AS history_hash
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::text[],
                         $8::text[], $9::text[], $10::text[], $11::int2[], $12::timestamptz[], $13::timestamptz[],
                         $14::text[], $15::text[], $16::text[], $17::bytea[], $18::bytea[], $19::int2[], $20::text[],
                         $21::int4[], $22::uuid[], $23::int4[], $24::uuid[], $25::text[],
                         $26::bytea[], $27::text[], $28::uuid[], $29::text[], $30::bool[])
        AS d(id, merchant, out_trade_no, target_kind, target_id, amount, currency, method_type, method_token,
             token_realm, capture_mode, start_by, expires_at, return_url, metadata, traceparent, key_hash,
             fingerprint, answer_status, answer_headers, lifetime_h, pointer_payment,
             pointer_version, event_id, event_subject, event_body, event_headers, command_id, command_subject,
             key_is_expired)),
-- An expired key may be used anew; a live one is somebody who was first, and the unique key says so.
k AS (
    INSERT INTO oncepay.idempotency_key AS i (merchant, operation, key_hash, fingerprint, fingerprint_version,
                                              payment_id, answer_status, answer_headers, expires_at)
    SELECT d.merchant, 1, d.key_hash, d.fingerprint, $32::int2, d.id, d.answer_status, d.answer_headers,
           now() + make_interval(hours => d.lifetime_h)
      FROM d WHERE NOT d.key_is_expired ORDER BY d.merchant, d.key_hash
    RETURNING i.payment_id),
renewed AS (
    INSERT INTO oncepay.idempotency_key AS i (merchant, operation, key_hash, fingerprint, fingerprint_version,
                                              payment_id, answer_status, answer_headers, expires_at)
    SELECT d.merchant, 1, d.key_hash, d.fingerprint, $32::int2, d.id, d.answer_status, d.answer_headers,
           now() + make_interval(hours => d.lifetime_h)
      FROM d WHERE d.key_is_expired ORDER BY d.merchant, d.key_hash
        ON CONFLICT (merchant, operation, key_hash) DO UPDATE
       SET fingerprint = excluded.fingerprint, fingerprint_version = excluded.fingerprint_version,
           payment_id = excluded.payment_id, answer_status = excluded.answer_status,
           answer_headers = excluded.answer_headers, answer_body = excluded.answer_body,
           expires_at = excluded.expires_at, created_at = now()
     WHERE i.expires_at <= now()
    RETURNING i.payment_id),
key_gate AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM k) + (SELECT count(*) FROM renewed) = (SELECT count(*) FROM d) THEN true
                ELSE oncepay.lost_race('idempotency key') END AS ok),
made AS (
    INSERT INTO oncepay.active_payment (merchant, target_kind, target_id, payment_id, version)
    SELECT d.merchant, d.target_kind, d.target_id, d.id, 1
      FROM d, key_gate g WHERE g.ok AND d.target_id IS NOT NULL AND d.pointer_version = 0
     ORDER BY d.merchant, d.target_kind, d.target_id
    RETURNING payment_id),
moved AS (
    UPDATE oncepay.active_payment a
       SET payment_id = t.id, version = a.version + 1, updated_at = now()
      FROM (SELECT d.* FROM d, key_gate g WHERE g.ok AND d.target_id IS NOT NULL AND d.pointer_version > 0
             ORDER BY d.merchant, d.target_kind, d.target_id) t
     WHERE a.merchant = t.merchant AND a.target_kind = t.target_kind AND a.target_id = t.target_id
       AND a.payment_id = t.pointer_payment AND a.version = t.pointer_version AND a.hold IS NULL
    RETURNING a.payment_id),
pointer_gate AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM made) + (SELECT count(*) FROM moved)
                     = (SELECT count(*) FROM d WHERE d.target_id IS NOT NULL)
                THEN true ELSE oncepay.lost_race('pointer') END AS ok),
p AS (
    INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, target_id, amount, currency, method_type,
                                 method_token, token_realm, capture_mode, status, version, certainty, start_by,
                                 expires_at, return_url, metadata, traceparent, history_hash)
    SELECT d.id, d.merchant, d.out_trade_no, d.target_kind, d.target_id, d.amount, d.currency, d.method_type,
           d.method_token, d.token_realm, d.capture_mode, 10, 1, 0, d.start_by, d.expires_at, d.return_url,
           d.metadata::jsonb, d.traceparent, d.history_hash
      FROM d, pointer_gate g WHERE g.ok
     ORDER BY d.merchant, d.out_trade_no
    RETURNING id),
h AS (
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                       prev_hash, at)
    SELECT d.id, 1, d.id, 1, 0, 10, 'accepted', 'new_request', $31::text, decode(repeat('00', 32), 'hex'), now()
      FROM d),
o AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
    SELECT d.event_id, 2, d.event_subject, 1, d.id, 1, d.id, d.event_body, d.event_headers FROM d),
c AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
    SELECT d.command_id, 1, d.command_subject, 1, d.id, 0, d.id, NULL FROM d)
SELECT count(*) FROM p
