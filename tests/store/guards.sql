-- tests/store/guards.sql: what the database refuses by itself (protocol J, marked D), one case each.
-- Read by guards_refusal_test.c: what stands before the first case prepares a fresh database; each one
-- runs in a transaction that is rolled back, and must end with the SQLSTATE of its line.
-- 00000: allowed, so that a guard which refuses everything is found out, too.

CREATE SCHEMA guard;

CREATE FUNCTION guard.zero() RETURNS bytea LANGUAGE sql AS $$ SELECT decode(repeat('00', 32), 'hex') $$;
-- Ids by name, the same in all cases.
CREATE FUNCTION guard.id(name text) RETURNS uuid LANGUAGE sql AS $$ SELECT md5(name)::uuid $$;

-- A payment with pointer and history, as intake writes it. Columns may be replaced, the history left out.
CREATE FUNCTION guard.pay(name text, target text DEFAULT NULL, first_status int DEFAULT 10, first_version int DEFAULT 1,
                          has_history boolean DEFAULT true, has_pointer boolean DEFAULT true,
                          other jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
    WITH d AS (
        SELECT (jsonb_populate_record(NULL::oncepay.payment, jsonb_build_object(
                    'id', guard.id(name), 'merchant', 'm-1001', 'out_trade_no', name, 'target_kind', 'order',
                    'target_id', coalesce(target, name), 'amount', 1200, 'currency', 'EUR', 'method_type', 'card',
                    'method_token', 'pm_card_visa', 'capture_mode', 1, 'status', first_status, 'version', first_version,
                    'certainty', 0, 'announced', 0, 'authorised', 0, 'captured', 0, 'capture_requested', 0,
                    'refunded', 0, 'refund_requested', 0, 'disputed', 0, 'overcapture', 0,
                    'start_by', '2030-01-01T00:00:00Z', 'created_at', now(),
                    'history_hash', oncepay.history_link(guard.zero(), 1::int2, guard.id(name), first_version, 0::int2,
                                                         first_status::int2, 'born', 'w', 'test', NULL, now()))
                || other)).*),
    a AS (INSERT INTO oncepay.active_payment (merchant, target_kind, target_id, payment_id, version)
          SELECT merchant, target_kind, target_id, id, 1 FROM d WHERE has_pointer AND target_id IS NOT NULL),
    h AS (INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                             prev_hash, at)
          SELECT id, 1, id, version, 0, status, 'born', 'w', 'test', guard.zero(), now() FROM d
           WHERE has_history)
    INSERT INTO oncepay.payment SELECT * FROM d
$$;

-- A further payment of a target: its pointer is moved to it.
CREATE FUNCTION guard.pay_again(name text, target text, other text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'WITH d AS (SELECT oncepay.history_link(guard.zero(), 1::int2, %1$L, 1, 0::int2, 10::int2, ''born'', ''w'', ''test'',
                                                NULL, now()) AS link),
         a AS (UPDATE oncepay.active_payment SET payment_id = %1$L, version = version + 1 %4$s WHERE target_id = %3$L),
         h AS (INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why,
                                                  actor, prev_hash, at)
               SELECT %1$L, 1, %1$L, 1, 0, 10, ''born'', ''w'', ''test'', guard.zero(), now() FROM d)
         INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, target_id, amount, currency, method_type,
                                      status, version, certainty, start_by, history_hash)
         SELECT %1$L, ''m-1001'', %2$L, ''order'', %3$L, 1, ''EUR'', ''card'', 10, 1, 0, now(), link FROM d',
        guard.id(name), name, target, CASE other WHEN '' THEN '' ELSE ', ' || other END);
END $$;

-- A payment's next version. other: further assignments, SQL.
CREATE FUNCTION guard.move(name text, to_status int, other text DEFAULT '', step int DEFAULT 1,
                           has_history boolean DEFAULT true, is_linked boolean DEFAULT true)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'WITH m AS (UPDATE oncepay.payment p SET status = %s, version = p.version + %s,
                       history_hash = oncepay.history_link(p.history_hash, 1::int2, p.id, p.version + %s, p.status,
                                                           %s::int2, ''moved'', ''w'', ''test'', NULL, now()) %s
                      WHERE id = %L RETURNING p.*),
         o AS (SELECT status, history_hash FROM oncepay.payment WHERE id = %L)
         INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                            prev_hash, at)
         SELECT m.id, 1, m.id, m.version, o.status, m.status, ''moved'', ''w'', ''test'',
                CASE WHEN %L THEN o.history_hash ELSE guard.zero() END, now() FROM m, o WHERE %L',
        to_status, step, step, to_status, CASE other WHEN '' THEN '' ELSE ', ' || other END,
        guard.id(name), guard.id(name), is_linked, has_history);
END $$;

-- An attempt of a payment, as route writes it.
CREATE FUNCTION guard.attempt(name text, payment text, first_status int DEFAULT 10, has_history boolean DEFAULT true,
                              other jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
    WITH d AS (
        SELECT (jsonb_populate_record(NULL::oncepay.payment_attempt, jsonb_build_object(
                    'id', guard.id(name), 'payment_id', guard.id(payment), 'operation', 1, 'number', 1, 'ordinal', 1,
                    'channel_account', 'stripe-main', 'method_type', 'card', 'amount', 1200, 'currency', 'EUR',
                    'provider_key', 'op_' || name, 'request_hash', sha256('x'), 'request_bytes', 'x'::bytea,
                    'status', first_status, 'certainty', 2, 'decline_class', 0, 'handed_out', false, 'version', 1,
                    'created_at', now(),
                    'history_hash', oncepay.history_link(p.history_hash, 2::int2, guard.id(name), 1, 0::int2,
                                                         first_status::int2, 'born', 'w', 'test', NULL, now()))
                || other)).*
          FROM oncepay.payment p WHERE p.id = guard.id(payment)),
    h AS (INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                             prev_hash, at)
          SELECT payment_id, 2, id, version, 0, status, 'born', 'w', 'test',
                 (SELECT p.history_hash FROM oncepay.payment p WHERE p.id = d.payment_id), now()
            FROM d WHERE has_history)
    INSERT INTO oncepay.payment_attempt SELECT * FROM d
$$;

CREATE FUNCTION guard.attempt_move(name text, to_status int, other text DEFAULT '', step int DEFAULT 1,
                                   has_history boolean DEFAULT true, is_linked boolean DEFAULT true)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'WITH m AS (UPDATE oncepay.payment_attempt p SET status = %s, version = p.version + %s,
                       history_hash = oncepay.history_link(p.history_hash, 2::int2, p.id, p.version + %s, p.status,
                                                           %s::int2, ''moved'', ''w'', ''test'', NULL, now()) %s
                      WHERE id = %L RETURNING p.*),
         o AS (SELECT status, history_hash FROM oncepay.payment_attempt WHERE id = %L)
         INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                            prev_hash, at)
         SELECT m.payment_id, 2, m.id, m.version, o.status, m.status, ''moved'', ''w'', ''test'',
                CASE WHEN %L THEN o.history_hash ELSE guard.zero() END, now() FROM m, o WHERE %L',
        to_status, step, step, to_status, CASE other WHEN '' THEN '' ELSE ', ' || other END,
        guard.id(name), guard.id(name), is_linked, has_history);
END $$;

-- Evidence about an attempt; source 3 is an answer, 1 is local.
CREATE FUNCTION guard.evidence(name text, attempt text, proves int, source int DEFAULT 3, request text DEFAULT NULL,
                               closure int DEFAULT 0) RETURNS void LANGUAGE sql AS $$
    INSERT INTO oncepay.evidence (payment_id, id, attempt_id, request_id, source, kind, phase, strength, proves, closure,
                                  digest, excerpt)
    SELECT a.payment_id, guard.id(name), a.id, guard.id(request), source, 0, 5, 1, proves, closure, sha256('x'), '{}'
      FROM oncepay.payment_attempt a WHERE a.id = guard.id(attempt)
$$;

CREATE FUNCTION guard.attempt_end(name text, to_status int, evidence text, certainty int) RETURNS void LANGUAGE sql AS $$
    SELECT guard.attempt_move(name, to_status, format('evidence_id = %L, certainty = %s', guard.id(evidence), certainty))
$$;

CREATE FUNCTION guard.request(name text, attempt text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind, send_by, worker)
    SELECT a.payment_id, guard.id(name), a.id, 1, now(), 'w' FROM oncepay.payment_attempt a WHERE a.id = guard.id(attempt)
$$;

CREATE FUNCTION guard.operation(name text, payment text, first_status int DEFAULT 10, has_history boolean DEFAULT true)
RETURNS void LANGUAGE sql AS $$
    WITH d AS (
        SELECT p.id AS payment_id, p.history_hash AS prev,
               oncepay.history_link(p.history_hash, 3::int2, guard.id(name), 1, 0::int2, first_status::int2, 'born', 'w',
                                    'test', NULL, now()) AS link
          FROM oncepay.payment p WHERE p.id = guard.id(payment)),
    h AS (INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                             prev_hash, at)
          SELECT payment_id, 3, guard.id(name), 1, 0, first_status, 'born', 'w', 'test', prev, now() FROM d
           WHERE has_history)
    INSERT INTO oncepay.payment_operation (id, payment_id, kind, out_no, amount, currency, status, version, history_hash)
    SELECT guard.id(name), payment_id, 5, name, 100, 'EUR', first_status, 1, link FROM d
$$;

CREATE FUNCTION guard.operation_move(name text, to_status int, other text DEFAULT '', step int DEFAULT 1,
                                     has_history boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'WITH m AS (UPDATE oncepay.payment_operation p SET status = %s, version = p.version + %s,
                       history_hash = oncepay.history_link(p.history_hash, 3::int2, p.id, p.version + %s, p.status,
                                                           %s::int2, ''moved'', ''w'', ''test'', NULL, now()) %s
                      WHERE id = %L RETURNING p.*),
         o AS (SELECT status, history_hash FROM oncepay.payment_operation WHERE id = %L)
         INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                            prev_hash, at)
         SELECT m.payment_id, 3, m.id, m.version, o.status, m.status, ''moved'', ''w'', ''test'', o.history_hash,
                now() FROM m, o WHERE %L',
        to_status, step, step, to_status, CASE other WHEN '' THEN '' ELSE ', ' || other END, guard.id(name),
        guard.id(name), has_history);
END $$;

INSERT INTO oncepay.recovery_policy (version, body) VALUES ('v1', ''), ('v2', '');
SELECT guard.pay('created');
SELECT guard.pay('second');
SELECT guard.pay('failed');
SELECT guard.move('failed', 90);
SELECT guard.pay('running'), guard.pay('paid');
SELECT guard.move('running', 20);
SELECT guard.attempt('a-created', 'running');
SELECT guard.move('paid', 20);
SELECT guard.attempt('a-sending', 'paid');
SELECT guard.attempt_move('a-sending', 20, 'first_sent_at = ''2026-01-01T00:00:00Z'', certainty = 1');
SELECT guard.request('r-sending', 'a-sending');
SELECT guard.move('paid', 50, 'authorised = 1200, captured = 1200');
SELECT guard.operation('refund', 'paid');
INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id, channel_account, method_type, operation, amount, currency,
                                   purpose, status, due_at, policy_version, version)
SELECT guard.id('task'), guard.id('paid'), guard.id('a-sending'), 'stripe-main', 'card', 1, 1200, 'EUR', 1, 10, now(),
       'v1', 1;
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version)
VALUES (guard.id('o'), 1, 'pay.route.1', 1, guard.id('created'), 0);
INSERT INTO oncepay.stray_fact (id, payment_id, attempt_id, kind, channel_account, provider_object, evidence_id)
VALUES (guard.id('s'), guard.id('paid'), guard.id('a-sending'), 1, 'stripe-main', 'pi_1', guard.id('e'));
INSERT INTO oncepay.provider_object (channel_account, object, attempt_id, payment_id)
VALUES ('stripe-main', 'pi_1', guard.id('a-sending'), guard.id('paid'));
INSERT INTO oncepay.attempt_step (attempt_id, step, provider_key, request_hash, request_bytes)
VALUES (guard.id('a-sending'), 2, 'op_2', sha256('x'), 'x');
INSERT INTO oncepay.manual_case (id, kind, payment_id, attempt_id, priority, reason)
VALUES (guard.id('case'), 1, guard.id('paid'), guard.id('a-sending'), 3, 'r');
INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id, kind, digest, excerpt)
VALUES (guard.id('w'), 'stripe-main', 'evt_1', 1, sha256('x'), '{}');
SELECT guard.evidence('e-sending', 'a-sending', NULL);

-- case 00000 a payment is born with pointer and history
SELECT guard.pay('x');
-- case 00000 a payment for no object needs no pointer
SELECT guard.pay('x', other => '{"target_kind": "none", "target_id": null}', has_pointer => false);
-- case 00000 a tombstone is born canceled, without amount and target
SELECT guard.pay('x', first_status => 95, other => '{"target_kind": null, "target_id": null, "amount": null,
    "currency": null, "method_type": null}', has_pointer => false);
-- case OP005 a payment is born in a state that is no birth
SELECT guard.pay('x', first_status => 20);
-- case OP005 a payment is born with version 2
SELECT guard.pay('x', first_version => 2);
-- case OP005 a payment is born without history
SELECT guard.pay('x', has_history => false);
-- case OP005 a payment is born with another history's hash (I8)
SELECT guard.pay('x'), guard.pay('y', has_history => false, other => jsonb_build_object('history_hash', sha256('y')));
-- case OP010 a payment is born while its target has no pointer (I1)
SELECT guard.pay('x', has_pointer => false);
-- case OP010 a payment is born while its target's pointer names another (I1)
SELECT guard.pay('x', target => 'created', has_pointer => false);
-- case 23505 a target has two pointers
SELECT guard.pay('x', target => 'created');
-- case 23505 a number is used twice (I2)
SELECT guard.pay('x', other => '{"out_trade_no": "created"}');
-- case 23514 an amount of nothing
SELECT guard.pay('x', other => '{"amount": 0}');
-- case 23514 a currency in lower case
SELECT guard.pay('x', other => '{"currency": "eur"}');
-- case 23514 a live payment without a method
SELECT guard.pay('x', other => '{"method_type": null}');
-- case 23514 an object of the kind none
SELECT guard.pay('x', other => '{"target_kind": "none"}', has_pointer => false);

-- case 00000 a listed move with history
SELECT guard.move('created', 20);
-- case 00000 a late fact about a payment that is over
SELECT guard.move('failed', 90);
-- case OP005 a status set by hand (I5)
UPDATE oncepay.payment SET status = 20 WHERE out_trade_no = 'created';
-- case OP005 a status set by hand, for all of them
UPDATE oncepay.payment SET status = 90, version = version + 1;
-- case OP005 a column changed without a version
UPDATE oncepay.payment SET reason = 'x' WHERE out_trade_no = 'created';
-- case OP005 a move that is not listed
SELECT guard.move('created', 50);
-- case OP005 a payment that is over comes back
SELECT guard.move('failed', 10);
-- case OP005 a payment that is over ends in another way
SELECT guard.move('failed', 95);
-- case OP005 a move without history (I8)
SELECT guard.move('created', 20, has_history => false);
-- case OP005 a move whose history does not link (I8)
SELECT guard.move('created', 20, is_linked => false);
-- case OP005 a move whose history says something else than was hashed (I8)
WITH o AS (SELECT * FROM oncepay.payment WHERE id = guard.id('created')),
h AS (INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                         prev_hash, at)
      SELECT id, 1, id, 2, 10, 20, 'moved', 'another reason', 'test', history_hash, now() FROM o)
UPDATE oncepay.payment p
   SET status = 20, version = 2,
       history_hash = oncepay.history_link(o.history_hash, 1::int2, o.id, 2, 10::int2, 20::int2, 'moved', 'w', 'test',
                                           NULL, now())
  FROM o WHERE p.id = o.id;
-- case 00000 two move at once
WITH o AS (SELECT * FROM oncepay.payment WHERE id IN (guard.id('created'), guard.id('running'))),
h AS (INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                         prev_hash, at)
      SELECT id, 1, id, version + 1, status, 20, 'moved', 'w', 'test', history_hash, now() FROM o)
UPDATE oncepay.payment p
   SET status = 20, version = p.version + 1,
       history_hash = oncepay.history_link(o.history_hash, 1::int2, o.id, o.version + 1, o.status, 20::int2, 'moved', 'w',
                                           'test', NULL, now())
  FROM o WHERE p.id = o.id;
-- case OP005 two move at once, and one of them has no history
WITH o AS (SELECT * FROM oncepay.payment WHERE id IN (guard.id('created'), guard.id('running'))),
h AS (INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                         prev_hash, at)
      SELECT id, 1, id, version + 1, status, 20, 'moved', 'w', 'test', history_hash, now() FROM o
       WHERE id = guard.id('created'))
UPDATE oncepay.payment p
   SET status = 20, version = p.version + 1,
       history_hash = oncepay.history_link(o.history_hash, 1::int2, o.id, o.version + 1, o.status, 20::int2, 'moved', 'w',
                                           'test', NULL, now())
  FROM o WHERE p.id = o.id;
-- case 00000 an update of nothing
UPDATE oncepay.payment SET status = 50 WHERE out_trade_no = 'nothing';
-- case OP005 a move that skips a version
SELECT guard.move('created', 20, step => 2);
-- case OP005 a move that keeps its version
SELECT guard.move('created', 20, step => 0, has_history => false);
-- case 23505 a second history row for a version (I8)
INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why,
                                   actor, prev_hash)
VALUES (guard.id('created'), 1, guard.id('created'), 1, 0, 10, 'e', 'w', 'a', guard.zero());
-- case OP005 an amount changes (I12)
SELECT guard.move('created', 20, 'amount = 1201');
-- case OP005 a currency changes (I12)
SELECT guard.move('created', 20, 'currency = ''USD''');
-- case OP005 a merchant changes (I12)
SELECT guard.move('created', 20, 'merchant = ''m-1002''');
-- case OP005 a number changes
SELECT guard.move('created', 20, 'out_trade_no = ''other''');
-- case OP005 a target changes
SELECT guard.move('created', 20, 'target_id = ''other''');
-- case OP005 a token changes
SELECT guard.move('created', 20, 'method_token = ''other''');
-- case OP005 a capture mode changes
SELECT guard.move('created', 20, 'capture_mode = 2');
-- case OP005 a start_by moves
SELECT guard.move('created', 20, 'start_by = now()');
-- case OP005 an id changes
SELECT guard.move('created', 20, 'id = guard.id(''other'')');
-- case 00000 a capture asks for what is authorised (I11)
SELECT guard.move('running', 30, 'authorised = 1200'), guard.move('running', 40, 'capture_requested = 1200');
-- case OP005 a capture asks for more than is authorised (I11)
SELECT guard.move('running', 30, 'authorised = 1200'), guard.move('running', 40, 'capture_requested = 1201');
-- case 00000 a refund asks for what is captured (I11)
SELECT guard.move('paid', 60, 'refund_requested = 1200');
-- case OP005 a refund asks for more than is captured (I11)
SELECT guard.move('paid', 60, 'refund_requested = 1201');
-- case OP005 a refund asks for what is disputed (I11)
SELECT guard.move('paid', 60, 'refund_requested = 1200, disputed = 1');
-- case 00000 what happened outside is never refused, whatever it adds up to
SELECT guard.move('paid', 50, 'refunded = 5000, disputed = 1200');
-- case 23514 a sum below nothing
SELECT guard.move('paid', 50, 'refunded = -1');
-- case OP007 a payment deleted
DELETE FROM oncepay.payment;
-- case OP007 payments truncated
TRUNCATE oncepay.payment;

-- case 00000 a pointer moves on from a payment that is over
SELECT guard.pay_again('x', 'failed');
-- case OP010 a pointer moves away from a payment that runs (I1)
SELECT guard.pay_again('x', 'running');
-- case OP010 a pointer moves under a hold
UPDATE oncepay.active_payment SET hold = 'h', version = version + 1 WHERE target_id = 'failed';
SELECT guard.pay_again('x', 'failed', 'hold = NULL');
-- case 00000 a hold is set and lifted
UPDATE oncepay.active_payment SET hold = 'h', version = version + 1 WHERE target_id = 'running';
UPDATE oncepay.active_payment SET hold = NULL, version = version + 1 WHERE target_id = 'running';
-- case OP010 a hold is set without a version
UPDATE oncepay.active_payment SET hold = 'h' WHERE target_id = 'running';
-- case OP010 a pointer names a payment of another target
UPDATE oncepay.active_payment SET payment_id = guard.id('second'), version = version + 1 WHERE target_id = 'failed';
-- case OP010 a pointer's target changes
SELECT guard.pay('x', target => 'x');
UPDATE oncepay.active_payment SET target_id = 'y', version = version + 1 WHERE target_id = 'x';
-- case OP010 a pointer names no payment at all
INSERT INTO oncepay.active_payment (merchant, target_kind, target_id, payment_id, version)
VALUES ('m-1001', 'order', 'nothing', guard.id('nothing'), 1);
-- case OP007 a pointer deleted
DELETE FROM oncepay.active_payment WHERE target_id = 'failed';

-- case 00000 an attempt is born with history
SELECT guard.attempt('x', 'created');
-- case OP005 an attempt is born sending
SELECT guard.attempt('x', 'created', first_status => 20);
-- case OP005 an attempt is born without history
SELECT guard.attempt('x', 'created', has_history => false);
-- case 23505 an ordinal twice
SELECT guard.attempt('x', 'running');
-- case 23505 a provider key twice at one account (I3)
SELECT guard.attempt('x', 'created', other => '{"provider_key": "op_a-created"}');
-- case 23514 a hash that is no SHA-256
SELECT guard.attempt('x', 'created', other => '{"request_hash": "\\x00"}');
-- case OP004 a second attempt while the first is not over (I4)
SELECT guard.attempt('x', 'running', other => '{"ordinal": 2, "guard_decision": "allowed"}');
-- case OP004 a second attempt without a first (I4)
SELECT guard.attempt('x', 'created', other => '{"ordinal": 2, "guard_decision": "allowed"}');
-- case OP004 a second attempt without the guard's decision (I4)
SELECT guard.evidence('e', 'a-created', 2, 1), guard.attempt_end('a-created', 60, 'e', 2);
SELECT guard.attempt('x', 'running', other => '{"ordinal": 2}');
-- case 00000 a second attempt after proof and decision (I4)
SELECT guard.evidence('e', 'a-created', 2, 1), guard.attempt_end('a-created', 60, 'e', 2);
SELECT guard.attempt('x', 'running', other => '{"ordinal": 2, "guard_decision": "allowed"}');
-- case OP004 a second attempt after a success (I4)
SELECT guard.evidence('e', 'a-sending', 5), guard.attempt_end('a-sending', 50, 'e', 5);
SELECT guard.attempt('x', 'paid', other => '{"ordinal": 2, "guard_decision": "allowed"}');
-- case 00000 a refund goes to the account of the create (I19)
SELECT guard.attempt('x', 'paid', other => '{"operation": 5}');
-- case OP004 a refund goes to another account (I19)
SELECT guard.attempt('x', 'paid', other => '{"operation": 5, "channel_account": "stripe-backup"}');

-- case 00000 an attempt is fenced
SELECT guard.attempt_move('a-created', 20, 'first_sent_at = now()');
-- case OP005 an attempt is sending without its first time
SELECT guard.attempt_move('a-created', 20);
-- case OP005 an attempt's status set by hand
UPDATE oncepay.payment_attempt SET status = 20 WHERE id = guard.id('a-created');
-- case OP005 an attempt's move that is not listed
SELECT guard.attempt_move('a-created', 30);
-- case OP005 an attempt's move without history
SELECT guard.attempt_move('a-sending', 40, has_history => false);
-- case OP005 an attempt's move whose history does not link
SELECT guard.attempt_move('a-sending', 40, is_linked => false);
-- case OP005 an attempt's move that skips a version
SELECT guard.attempt_move('a-sending', 40, step => 2);
-- case OP005 an attempt changes its amount (I12)
SELECT guard.attempt_move('a-sending', 40, 'amount = 1');
-- case OP005 an attempt changes its account (I12)
SELECT guard.attempt_move('a-sending', 40, 'channel_account = ''stripe-backup''');
-- case OP005 an attempt changes its key (I12)
SELECT guard.attempt_move('a-sending', 40, 'provider_key = ''op_other''');
-- case OP005 an attempt changes its hash (I12)
SELECT guard.attempt_move('a-sending', 40, 'request_hash = sha256(''y'')');
-- case OP005 an attempt changes its bytes
SELECT guard.attempt_move('a-sending', 40, 'request_bytes = ''y''');
-- case OP005 an attempt's first time moves
SELECT guard.attempt_move('a-sending', 40, 'first_sent_at = now()');
-- case OP005 an attempt changes its ordinal
SELECT guard.attempt_move('a-sending', 40, 'ordinal = 2');
-- case OP005 an attempt's id changes
SELECT guard.attempt_move('a-sending', 40, 'id = guard.id(''other'')');
-- case OP007 an attempt deleted
DELETE FROM oncepay.payment_attempt;

-- case 00000 a success with its proof (I6)
SELECT guard.evidence('e', 'a-sending', 5), guard.attempt_end('a-sending', 50, 'e', 5);
-- case 00000 a failure with its proof (I6)
SELECT guard.evidence('e', 'a-sending', 3), guard.attempt_end('a-sending', 60, 'e', 3);
-- case OP006 a success without evidence (I6)
SELECT guard.attempt_move('a-sending', 50, 'certainty = 5');
-- case OP006 a success with evidence that proves nothing (I6)
SELECT guard.attempt_end('a-sending', 50, 'e-sending', 5);
-- case OP006 a success with evidence of a failure (I6)
SELECT guard.evidence('e', 'a-sending', 3), guard.attempt_end('a-sending', 50, 'e', 3);
-- case OP006 a success with the evidence of another attempt (I6)
SELECT guard.evidence('e', 'a-created', 5), guard.attempt_end('a-sending', 50, 'e', 5);
-- case OP006 a failure with evidence of a success (I6)
SELECT guard.evidence('e', 'a-sending', 5), guard.attempt_end('a-sending', 60, 'e', 5);
-- case OP006 a failure whose certainty is not what the evidence proves (I6)
SELECT guard.evidence('e', 'a-sending', 3), guard.attempt_end('a-sending', 60, 'e', 2);
-- case OP006 a failure by UNKNOWN (I6)
SELECT guard.evidence('e', 'a-sending', 1), guard.attempt_end('a-sending', 60, 'e', 1);
-- case 00000 local evidence ends what was never sent (I6)
SELECT guard.evidence('e', 'a-created', 2, 1), guard.attempt_end('a-created', 60, 'e', 2);
-- case OP006 local evidence after the fence proves nothing (I6)
SELECT guard.evidence('e', 'a-sending', 2, 1), guard.attempt_end('a-sending', 60, 'e', 2);
-- case OP006 local evidence while a request may have left (I6)
SELECT guard.request('r', 'a-created'), guard.evidence('e', 'a-created', 2, 1),
       guard.attempt_end('a-created', 60, 'e', 2);
-- case OP006 local evidence while a request's outcome is known (I6)
SELECT guard.request('r', 'a-created'), guard.evidence('c', 'a-created', NULL, 3, 'r', 2),
       guard.evidence('e', 'a-created', 2, 1), guard.attempt_end('a-created', 60, 'e', 2);
-- case 00000 local evidence once every request is proven unsent (I6)
SELECT guard.request('r', 'a-created'), guard.evidence('c', 'a-created', NULL, 2, 'r', 1),
       guard.evidence('e', 'a-created', 2, 1), guard.attempt_end('a-created', 60, 'e', 2);
-- case OP006 local evidence of a success (I6)
SELECT guard.evidence('e', 'a-sending', 5, 1), guard.attempt_end('a-sending', 50, 'e', 5);
-- case OP005 an attempt that ended goes on (I5)
SELECT guard.evidence('e', 'a-sending', 5), guard.attempt_end('a-sending', 50, 'e', 5);
SELECT guard.attempt_move('a-sending', 40);
-- case OP005 an attempt that ended ends again (I5)
SELECT guard.evidence('e', 'a-sending', 5), guard.attempt_end('a-sending', 50, 'e', 5);
SELECT guard.evidence('f', 'a-sending', 3), guard.attempt_end('a-sending', 60, 'f', 3);

-- case 00000 an operation ends once
SELECT guard.operation_move('refund', 50);
-- case OP005 an operation is born without history
SELECT guard.operation('x', 'paid', has_history => false);
-- case OP005 an operation is born ended
SELECT guard.operation('x', 'paid', first_status => 50);
-- case 23505 an operation's number twice (I2)
SELECT guard.operation('refund', 'paid');
-- case OP005 an operation ends twice (I17)
SELECT guard.operation_move('refund', 50);
SELECT guard.operation_move('refund', 60);
-- case OP005 an operation's status set by hand
UPDATE oncepay.payment_operation SET status = 50;
-- case OP005 an operation ends without history
SELECT guard.operation_move('refund', 50, has_history => false);
-- case OP005 an operation changes its amount (I12)
SELECT guard.operation_move('refund', 50, 'amount = 99');
-- case OP005 an operation's id changes
SELECT guard.operation_move('refund', 50, 'id = guard.id(''other'')');
-- case OP007 an operation deleted
DELETE FROM oncepay.payment_operation;

-- case OP007 history changed (I7)
UPDATE oncepay.state_history SET why = 'x';
-- case OP007 history deleted (I7)
DELETE FROM oncepay.state_history;
-- case OP007 history truncated (I7)
TRUNCATE oncepay.state_history;
-- case OP007 a partition of the history truncated (I7)
DO $$ BEGIN EXECUTE (SELECT format('TRUNCATE oncepay.%I', c.relname) FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'oncepay.state_history'::regclass LIMIT 1); END $$;
-- case OP007 objects truncated
TRUNCATE oncepay.provider_object;
-- case OP007 evidence changed (I7)
UPDATE oncepay.evidence SET proves = 5;
-- case OP007 evidence deleted (I7)
DELETE FROM oncepay.evidence;
-- case OP007 evidence truncated (I7)
TRUNCATE oncepay.evidence;
-- case OP007 outbox changed (I7)
UPDATE oncepay.outbox SET subject = 'x';
-- case OP007 outbox deleted (I7)
DELETE FROM oncepay.outbox;
-- case OP007 a request row changed
UPDATE oncepay.attempt_request SET send_by = now();
-- case OP007 a request row deleted
DELETE FROM oncepay.attempt_request;
-- case OP007 a stray fact changed (I7)
UPDATE oncepay.stray_fact SET amount = 1;
-- case OP007 a stray fact deleted (I7)
DELETE FROM oncepay.stray_fact;
-- case OP007 a PSP object changes hands
UPDATE oncepay.provider_object SET attempt_id = guard.id('x');
-- case OP007 a step's bytes changed (I3)
UPDATE oncepay.attempt_step SET request_bytes = 'y';
-- case OP007 a case deleted
DELETE FROM oncepay.manual_case;
-- case OP007 keys truncated
TRUNCATE oncepay.idempotency_key;

-- case 00000 a task's time moves within its status
UPDATE oncepay.recovery_task SET due_at = now(), version = version + 1;
-- case 00000 a task is claimed
UPDATE oncepay.recovery_task SET status = 20, version = version + 1;
-- case OP005 a task moves in a way that is not listed
UPDATE oncepay.recovery_task SET status = 40, version = version + 1;
-- case OP005 a task moves without a version
UPDATE oncepay.recovery_task SET status = 20;
-- case OP005 a task changes its pinned policy
UPDATE oncepay.recovery_task SET policy_version = 'v2', version = version + 1;
-- case OP005 a task's id changes
UPDATE oncepay.recovery_task SET id = guard.id('other'), version = version + 1;
-- case OP005 a resolved task comes back
UPDATE oncepay.recovery_task SET status = 50, version = version + 1;
UPDATE oncepay.recovery_task SET status = 10, version = version + 1;
-- case 23505 two open tasks for one attempt (I21)
INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id, channel_account, method_type, operation, amount, currency,
                                   purpose, status, due_at, policy_version, version)
SELECT guard.id('y'), payment_id, attempt_id, channel_account, method_type, operation, amount, currency, purpose, 10,
       now(), 'v1', 1 FROM oncepay.recovery_task;
-- case 23505 two cases of one kind for one attempt (I10)
INSERT INTO oncepay.manual_case (id, kind, payment_id, attempt_id, priority, reason)
VALUES (guard.id('y'), 1, guard.id('paid'), guard.id('a-sending'), 3, 'r');
-- case 23505 a webhook twice (I21)
INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id, kind, digest, excerpt)
VALUES (guard.id('y'), 'stripe-main', 'evt_1', 1, sha256('x'), '{}');
-- case 23505 a stray fact twice
INSERT INTO oncepay.stray_fact (id, payment_id, attempt_id, kind, channel_account, provider_object, evidence_id)
VALUES (guard.id('y'), guard.id('paid'), guard.id('a-sending'), 1, 'stripe-main', 'pi_1', guard.id('e'));
-- case OP001 a lost race is said by its own code
SELECT oncepay.lost_race('anything');
