-- tests/support/many_rows.sql: many rows at once, for tests of how statements scale. Guards and append-only
-- triggers are off for whoever calls these (session_replication_role = replica), so the rows have the
-- right shape and distribution, and no more than that.

-- An id as ours are: the present in front, so that it lies in today's partitions; rising with n.
DO $$
BEGIN
    EXECUTE format('CREATE FUNCTION many_id(kind int, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
                    $f$ SELECT (%L || lpad(to_hex(kind), 3, ''0'') || ''-'' || lpad(to_hex(n), 12, ''0''))::uuid $f$',
                   left(oncepay.uuid_floor(now())::text, 13) || '-7000-8');
END $$;

CREATE FUNCTION many_ids(kind int, count int) RETURNS uuid[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(many_id(kind, n) ORDER BY n) FROM generate_series(1, count) n
$$;

-- Payments first … last that have succeeded, in all tables that a happy payment leaves rows in.
CREATE PROCEDURE many_payments(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, target_id, amount, currency, method_type,
                                 method_token, token_realm, status, version, certainty, start_by, applied_attempt,
                                 applied_version, history_hash)
    SELECT many_id(1, n), 'm-1001', 'n-' || n, 'order', 'n-' || n, 1099, 'EUR', 'card', 'pm_card_visa', 'stripe', 50, 3,
           5, now(), many_id(2, n), 3, sha256(n::text::bytea)
      FROM generate_series(first, last) n;
    INSERT INTO oncepay.active_payment (merchant, target_kind, target_id, payment_id, version)
    SELECT 'm-1001', 'order', 'n-' || n, many_id(1, n), 1 FROM generate_series(first, last) n;
    INSERT INTO oncepay.idempotency_key (merchant, operation, key_hash, fingerprint, fingerprint_version, payment_id,
                                         answer_status, answer_headers, answer_body, expires_at)
    SELECT 'm-1001', 1, sha256(n::text::bytea), sha256(n::text::bytea), 1, many_id(1, n), 202, '', '', now()
      FROM generate_series(first, last) n;
    INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal, channel_account, method_type, amount,
                                         currency, provider_key, request_hash, request_bytes, status, certainty,
                                         evidence_id, version, history_hash)
    SELECT many_id(2, n), many_id(1, n), 1, 1, 1, 'stripe-main', 'card', 1099, 'EUR', 'op_' || n, sha256(n::text::bytea),
           'POST', 50, 5, many_id(4, n), 3, sha256(n::text::bytea)
      FROM generate_series(first, last) n;
    INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind, send_by, worker)
    SELECT many_id(1, n), many_id(3, n), many_id(2, n), 1, now(), 'w' FROM generate_series(first, last) n;
    INSERT INTO oncepay.evidence (payment_id, id, attempt_id, request_id, source, kind, phase, strength, proves, closure,
                                  digest, excerpt)
    SELECT many_id(1, n), many_id(4, n), many_id(2, n), many_id(3, n), 3, 12, 5, 60, 5, 2, '', '{}'
      FROM generate_series(first, last) n;
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status, event, why, actor,
                                       evidence_id, prev_hash)
    SELECT many_id(1, n), e, many_id(e, n), v, v, v, 'e', 'w', 'a', many_id(4, n), ''
      FROM generate_series(first, last) n, generate_series(1, 2) e, generate_series(1, 3) v;
    INSERT INTO oncepay.provider_object (channel_account, object, attempt_id, payment_id)
    SELECT 'stripe-main', 'pi_' || n, many_id(2, n), many_id(1, n) FROM generate_series(first, last) n;
    INSERT INTO oncepay.routing_decision (id, payment_id, follows, channel_account, attempt_id, routing_version, reasons)
    SELECT many_id(5, n), many_id(1, n), 0, 'stripe-main', many_id(2, n), 'r', '{}' FROM generate_series(first, last) n;
    CALL many_commands(first, last);
    CALL many_events(first, last);
END $$;

-- Their commands and events. Commands are an hour old; the transactions of the events lie behind every snapshot.
CREATE PROCEDURE many_commands(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid, created_at)
    SELECT many_id(6, n), 1, 'pay.settle.' || n % 16, 2, many_id(2, n), 3, many_id(1, n), many_xid(n),
           now() - interval '1 hour' + n * interval '1 microsecond'
      FROM generate_series(first, last) n;
END $$;
CREATE PROCEDURE many_events(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body, headers, xid)
    SELECT many_id(7, n), 2, 'pay.event.m-1001.payment.succeeded', 1, many_id(1, n), 3, many_id(1, n), '', '', many_xid(n)
      FROM generate_series(first, last) n;
END $$;
-- Finished transactions, a few hundred of them; a page of the relay's is a part of one.
CREATE FUNCTION many_xid(n bigint) RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (10 + n * 600 / 1000000)::text::xid8
$$;

-- Rows that wait, all due: what the work-finding statements choose from.
CREATE PROCEDURE many_tasks(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id, channel_account, method_type, operation, amount,
                                       currency, purpose, status, due_at, policy_version, version)
    SELECT many_id(8, n), many_id(1, n), many_id(2, n), 'stripe-main', 'card', 1, 1099, 'EUR', 1, 10,
           now() - interval '1 hour' + n * interval '1 microsecond', 'p', 1
      FROM generate_series(first, last) n;
END $$;
CREATE PROCEDURE many_timers(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.payment_timer (id, payment_id, kind, due_at)
    SELECT many_id(9, n), many_id(1, n), 1, now() - interval '1 hour' + n * interval '1 microsecond'
      FROM generate_series(first, last) n;
END $$;
CREATE PROCEDURE many_fences(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.fence_batch (id, channel_account, worker, attempts, due_at)
    SELECT many_id(10, n), 'stripe-main', 'w', ARRAY[many_id(2, n)], now() - interval '1 hour' + n * interval '1 microsecond'
      FROM generate_series(first, last) n;
END $$;
CREATE PROCEDURE many_webhooks(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id, kind, digest, excerpt, look_at)
    SELECT many_id(11, n), 'stripe-main', 'evt_' || n, 12, '', '{}', now() - interval '1 hour' + n * interval '1 microsecond'
      FROM generate_series(first, last) n;
END $$;
CREATE PROCEDURE many_stuck(first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO oncepay.stuck_command (kind, entity_id, version, payment_id, subject, stage, channel_account, state, since,
                                       emitted_at, next_at)
    SELECT 3, many_id(2, n), 3, many_id(1, n), 'pay.settle.0', 'settle', 'stripe-main', 20, now(), now(),
           now() - interval '1 hour' + n * interval '1 microsecond'
      FROM generate_series(first, last) n;
END $$;

-- Where the rows of a kind lie.
CREATE FUNCTION many_table(kind text) RETURNS regclass LANGUAGE sql STABLE AS $$
    SELECT CASE kind WHEN 'tasks' THEN 'oncepay.recovery_task' WHEN 'timers' THEN 'oncepay.payment_timer'
                     WHEN 'fences' THEN 'oncepay.fence_batch' WHEN 'webhooks' THEN 'oncepay.webhook_inbox'
                     WHEN 'stuck' THEN 'oncepay.stuck_command'
                     ELSE 'oncepay.outbox_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') END::regclass
$$;
