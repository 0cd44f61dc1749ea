-- ops/yardstick/naive.sql: the same rows the usual way: one payment, one row, one statement at a
-- time, each transition a transaction of its own. :names as in ceiling.sql.

-- transaction accept
INSERT INTO oncepay.idempotency_key (merchant, operation, key_hash, fingerprint, fingerprint_version, payment_id,
                                     answer_status, answer_headers, expires_at)
VALUES (:merchant, 1, :key_hash, :fingerprint, 1, :payment_id, 202, :answer_headers,
        now() + make_interval(hours => :lifetime_h));
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor, prev_hash, at)
VALUES (:payment_id, 1, :payment_id, 1, 0, 10, 'accepted', 'new_request', 'intake/yardstick/1', :zero_hash,
        :at);
WITH pointer AS (
    INSERT INTO oncepay.active_payment (merchant, target_kind, target_id, payment_id, version)
    VALUES (:merchant, 'order', :out_trade_no, :payment_id, 1))
INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, target_id, amount, currency, method_type,
                             method_token, token_realm, status, version, certainty, start_by, history_hash)
VALUES (:payment_id, :merchant, :out_trade_no, 'order', :out_trade_no, :amount, :currency, :method_type, :method_token,
        :token_realm, 10, 1, 0, :start_by, :payment_hash_1);
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
VALUES (:route_command_id, 1, :route_subject, 1, :payment_id, 0, :payment_id, NULL);
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
VALUES (:accepted_id, 2, :accepted_subject, 1, :payment_id, 1, :payment_id, :accepted_body, :accepted_headers);

-- transaction route
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                   routing_version, prev_hash, at)
VALUES (:payment_id, 1, :payment_id, 2, 10, 20, 'routed', 'first_that_serves', 'route/yardstick/1', :routing_version,
        :payment_hash_1, :at);
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                   routing_version, prev_hash, at)
VALUES (:payment_id, 2, :attempt_id, 1, 0, 10, 'routed', 'first_that_serves', 'route/yardstick/1', :routing_version,
        :payment_hash_2, :at);
INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal, channel_account, method_type, amount,
                                     currency, provider_key, request_hash, request_bytes, status, certainty,
                                     routing_version, version, history_hash)
VALUES (:attempt_id, :payment_id, 1, 1, 1, :account, :method_type, :amount, :currency, :provider_key, :request_hash,
        :request_bytes, 10, 2, :routing_version, 1, :attempt_hash_1);
UPDATE oncepay.payment
   SET status = 20, version = version + 1, history_hash = :payment_hash_2
 WHERE id = :payment_id AND version = 1 AND status = 10;
INSERT INTO oncepay.routing_decision (id, payment_id, follows, channel_account, routing_version, reasons)
VALUES (:decision_id, :payment_id, 0, :account, :routing_version, :reasons::jsonb);
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
VALUES (:create_command_id, 1, :create_subject, 2, :attempt_id, 1, :payment_id, NULL);

-- transaction fence
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor, prev_hash, at)
VALUES (:payment_id, 2, :attempt_id, 2, 10, 20, 'fence', 'about to be sent', 'create/yardstick/1', :attempt_hash_1,
        :at);
UPDATE oncepay.payment_attempt
   SET status = 20, version = version + 1, certainty = 1, first_sent_at = now(), history_hash = :attempt_hash_2
 WHERE id = :attempt_id AND version = 1 AND status = 10;
INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind, send_by, worker)
VALUES (:payment_id, :request_id, :attempt_id, 1, now() + interval '2 seconds', 'create/yardstick/1');
INSERT INTO oncepay.fence_batch (id, channel_account, worker, attempts, due_at)
VALUES (:fence_id, 'stripe-main', 'create/yardstick/1', ARRAY[:attempt_id], now() + interval '37 seconds');

-- transaction result
INSERT INTO oncepay.evidence (payment_id, id, attempt_id, request_id, source, kind, phase, http_status, provider_status,
                              provider_object, reference, amount, currency, strength, proves, closure, digest, excerpt)
VALUES (:payment_id, :evidence_id, :attempt_id, :request_id, 3, 12, 5, 200, 'succeeded', :provider_object, '=',
        :amount, :currency, 60, 5, 2, :digest, :excerpt);
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                   evidence_id, policy_version, prev_hash, at)
VALUES (:payment_id, 2, :attempt_id, 3, 20, 50, 'answer.succeeded', 'succeeded', 'create/yardstick/1', :evidence_id,
        :policy_version, :attempt_hash_2, :at);
UPDATE oncepay.payment_attempt
   SET status = 50, version = version + 1, certainty = 5, evidence_id = :evidence_id,
       provider_payment_id = :provider_object, policy_version = :policy_version,
       history_hash = :attempt_hash_3
 WHERE id = :attempt_id AND version = 2 AND status = 20;
INSERT INTO oncepay.provider_object (channel_account, object, attempt_id, payment_id)
VALUES (:account, :provider_object, :attempt_id, :payment_id);
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
VALUES (:settle_command_id, 1, :settle_subject, 2, :attempt_id, 3, :payment_id, NULL);
DELETE FROM oncepay.fence_batch WHERE id = :fence_id;

-- transaction settle
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                   evidence_id, prev_hash, at)
VALUES (:payment_id, 1, :payment_id, 3, 20, 50, 'settled.succeeded', 'captured', 'settle/yardstick/1', :evidence_id,
        :payment_hash_2, :at);
UPDATE oncepay.payment
   SET status = 50, version = version + 1, certainty = 5, authorised = amount, captured = amount,
       applied_attempt = :attempt_id, applied_version = 3, history_hash = :payment_hash_3
 WHERE id = :payment_id AND version = 2 AND status = 20;
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers)
VALUES (:succeeded_id, 2, :succeeded_subject, 1, :payment_id, 3, :payment_id, :succeeded_body, :succeeded_headers);
