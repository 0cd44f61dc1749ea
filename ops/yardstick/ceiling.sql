-- ops/yardstick/ceiling.sql: the rows that one happy card payment leaves, written as fast as
-- PostgreSQL takes them: many payments at a time, one statement per table, the statements of a
-- transaction sent together. The transactions are those of the stages; the columns, :names, stand in
-- yardstick_payment.c. History stands before what it is about, because the guards look for it.

-- transaction accept
INSERT INTO oncepay.idempotency_key (merchant, operation, key_hash, fingerprint, fingerprint_version, payment_id,
                                     answer_status, answer_headers, expires_at)
SELECT merchant, 1, key_hash, fingerprint, 1, payment_id, 202, answer_headers,
       now() + make_interval(hours => lifetime_h)
  FROM unnest(:merchant, :key_hash, :fingerprint, :payment_id, :answer_headers, :lifetime_h)
    AS d(merchant, key_hash, fingerprint, payment_id, answer_headers, lifetime_h);

INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor, prev_hash, at)
SELECT id, 1, id, 1, 0, 10, 'accepted', 'new_request', 'intake/yardstick/1', prev_hash, at
  FROM unnest(:payment_id, :zero_hash, :at) AS d(id, prev_hash, at);

-- Pointer and payment must name each other at the end of their statement: one statement.
WITH pointer AS (
    INSERT INTO oncepay.active_payment (merchant, target_kind, target_id, payment_id, version)
    SELECT merchant, 'order', target_id, payment_id, 1
      FROM unnest(:merchant, :out_trade_no, :payment_id) AS d(merchant, target_id, payment_id))
INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, target_id, amount, currency, method_type,
                             method_token, token_realm, status, version, certainty, start_by, history_hash)
SELECT id, merchant, out_trade_no, 'order', out_trade_no, amount, currency, method_type, method_token, token_realm, 10, 1,
       0, start_by, hash
  FROM unnest(:payment_id, :merchant, :out_trade_no, :amount, :currency, :method_type, :method_token, :token_realm,
              :start_by, :payment_hash_1)
    AS d(id, merchant, out_trade_no, amount, currency, method_type, method_token, token_realm, start_by, hash);

INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
SELECT id, 1, subject, 1, payment_id, 0, payment_id, NULL
  FROM unnest(:route_command_id, :route_subject, :payment_id) AS d(id, subject, payment_id);

INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
SELECT id, 2, subject, 1, payment_id, 1, payment_id, body, headers
  FROM unnest(:accepted_id, :accepted_subject, :payment_id, :accepted_body, :accepted_headers)
    AS d(id, subject, payment_id, body, headers);

-- transaction route
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                   routing_version, prev_hash, at)
SELECT payment_id, entity, id, version, from_status, to_status, 'routed', 'first_that_serves', 'route/yardstick/1',
       routing_version, prev_hash, at
  FROM unnest(:payment_id, :attempt_id, :routing_version, :payment_hash_1, :payment_hash_2, :at)
    AS d(payment_id, attempt_id, routing_version, payment_hash_1, payment_hash_2, at),
       LATERAL (VALUES (1::int2, payment_id, 2, 10::int2, 20::int2, payment_hash_1),
                       (2::int2, attempt_id, 1, 0::int2, 10::int2, payment_hash_2))
            AS e(entity, id, version, from_status, to_status, prev_hash);

INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal, channel_account, method_type, amount,
                                     currency, provider_key, request_hash, request_bytes, status, certainty,
                                     routing_version, version, history_hash)
SELECT id, payment_id, 1, 1, 1, account, method_type, amount, currency, provider_key, request_hash, request_bytes, 10, 2,
       routing_version, 1, hash
  FROM unnest(:attempt_id, :payment_id, :account, :method_type, :amount, :currency, :provider_key, :request_hash,
              :request_bytes, :routing_version, :attempt_hash_1)
    AS d(id, payment_id, account, method_type, amount, currency, provider_key, request_hash, request_bytes,
         routing_version, hash);

UPDATE oncepay.payment p
   SET status = 20, version = p.version + 1, history_hash = d.hash
  FROM unnest(:payment_id, :payment_hash_2) AS d(id, hash)
 WHERE p.id = d.id AND p.version = 1 AND p.status = 10;

INSERT INTO oncepay.routing_decision (id, payment_id, follows, channel_account, routing_version, reasons)
SELECT id, payment_id, 0, account, routing_version, reasons::jsonb
  FROM unnest(:decision_id, :payment_id, :account, :routing_version, :reasons)
    AS d(id, payment_id, account, routing_version, reasons);

INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
SELECT id, 1, subject, 2, attempt_id, 1, payment_id, NULL
  FROM unnest(:create_command_id, :create_subject, :attempt_id, :payment_id) AS d(id, subject, attempt_id, payment_id);

-- transaction fence
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor, prev_hash, at)
SELECT payment_id, 2, id, 2, 10, 20, 'fence', 'about to be sent', 'create/yardstick/1', prev_hash, at
  FROM unnest(:payment_id, :attempt_id, :attempt_hash_1, :at) AS d(payment_id, id, prev_hash, at);

UPDATE oncepay.payment_attempt a
   SET status = 20, version = a.version + 1, certainty = 1, first_sent_at = now(), history_hash = d.hash
  FROM unnest(:attempt_id, :attempt_hash_2) AS d(id, hash)
 WHERE a.id = d.id AND a.version = 1 AND a.status = 10;

INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind, send_by, worker)
SELECT payment_id, id, attempt_id, 1, now() + interval '2 seconds', 'create/yardstick/1'
  FROM unnest(:payment_id, :request_id, :attempt_id) AS d(payment_id, id, attempt_id);

INSERT INTO oncepay.fence_batch (id, channel_account, worker, attempts, due_at)
VALUES (:fence_id, 'stripe-main', 'create/yardstick/1', :attempt_id, now() + interval '37 seconds');

-- transaction result
INSERT INTO oncepay.evidence (payment_id, id, attempt_id, request_id, source, kind, phase, http_status, provider_status,
                              provider_object, reference, amount, currency, strength, proves, closure, digest, excerpt)
SELECT payment_id, id, attempt_id, request_id, 3, 12, 5, 200, 'succeeded', object, '=', amount, currency, 60, 5, 2,
       digest, excerpt
  FROM unnest(:payment_id, :evidence_id, :attempt_id, :request_id, :provider_object, :amount, :currency,
              :digest, :excerpt)
    AS d(payment_id, id, attempt_id, request_id, object, amount, currency, digest, excerpt);

INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                   evidence_id, policy_version, prev_hash, at)
SELECT payment_id, 2, id, 3, 20, 50, 'answer.succeeded', 'succeeded', 'create/yardstick/1', evidence_id, policy_version,
       prev_hash, at
  FROM unnest(:payment_id, :attempt_id, :evidence_id, :policy_version, :attempt_hash_2, :at)
    AS d(payment_id, id, evidence_id, policy_version, prev_hash, at);

UPDATE oncepay.payment_attempt a
   SET status = 50, version = a.version + 1, certainty = 5, evidence_id = d.evidence_id, provider_payment_id = d.object,
       policy_version = d.policy_version, history_hash = d.hash
  FROM unnest(:attempt_id, :evidence_id, :provider_object, :policy_version, :attempt_hash_3)
    AS d(id, evidence_id, object, policy_version, hash)
 WHERE a.id = d.id AND a.version = 2 AND a.status = 20;

INSERT INTO oncepay.provider_object (channel_account, object, attempt_id, payment_id)
SELECT account, object, attempt_id, payment_id
  FROM unnest(:account, :provider_object, :attempt_id, :payment_id) AS d(account, object, attempt_id, payment_id);

INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
SELECT id, 1, subject, 2, attempt_id, 3, payment_id, NULL
  FROM unnest(:settle_command_id, :settle_subject, :attempt_id, :payment_id) AS d(id, subject, attempt_id, payment_id);

DELETE FROM oncepay.fence_batch WHERE id = :fence_id;

-- transaction settle
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                   evidence_id, prev_hash, at)
SELECT id, 1, id, 3, 20, 50, 'settled.succeeded', 'captured', 'settle/yardstick/1', evidence_id, prev_hash, at
  FROM unnest(:payment_id, :evidence_id, :payment_hash_2, :at)
    AS d(id, evidence_id, prev_hash, at);

UPDATE oncepay.payment p
   SET status = 50, version = p.version + 1, certainty = 5, authorised = p.amount, captured = p.amount,
       applied_attempt = d.attempt_id, applied_version = 3, history_hash = d.hash
  FROM unnest(:payment_id, :attempt_id, :payment_hash_3) AS d(id, attempt_id, hash)
 WHERE p.id = d.id AND p.version = 2 AND p.status = 20;

INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
SELECT id, 2, subject, 1, payment_id, 3, payment_id, body, headers
  FROM unnest(:succeeded_id, :succeeded_subject, :payment_id, :succeeded_body, :succeeded_headers)
    AS d(id, subject, payment_id, body, headers);
