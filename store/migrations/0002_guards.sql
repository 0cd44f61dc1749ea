-- 0002: what the database itself refuses (protocol J, marked D). SQLSTATE class OP is ours:
--   OP001 lost race        the statement saw less than it expected; re-read and decide again
--   OP005 transition       pair not listed, version not + 1, history missing or not linked, fixed column changed
--   OP006 proof            FAILED or SUCCEEDED without evidence that proves it
--   OP004 attempt          attempt n + 1 without proof that n failed, or at a foreign account
--   OP007 append-only      UPDATE or DELETE of history, evidence, outbox, stray facts; DELETE of a payment
--   OP010 pointer          a live payment that its target's pointer does not name
--
-- The guards are statement-level with transition tables: about half the price of row triggers
-- (protocol H9). Each joins through LATERAL … LIMIT 1, so that no plan can turn the look-up of a
-- few rows into a scan of the whole history. Inside stands one key and nothing else: a plan made while
-- the tables are small is kept, and it may well take the index of whatever else is compared there.

-- Raises OP001; for use inside a statement whose parts must all have happened.
CREATE FUNCTION oncepay.lost_race(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lost race: %', what USING ERRCODE = 'OP001';
END $$;

-- The chain link of one history row: what `verify` recomputes. Attempts and operations start from
-- their payment's head, a payment from 32 zero bytes.
CREATE FUNCTION oncepay.history_link(prev bytea, entity smallint, id uuid, version int, from_status smallint,
    to_status smallint, event text, why text, actor text, evidence_id uuid, at timestamptz)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(prev || int2send(entity) || uuid_send(id) || int4send(version) || int2send(from_status)
                  || int2send(to_status) || timestamptz_send(at)
                  || coalesce(uuid_send(evidence_id), ''::bytea)
                  || convert_to(event || chr(31) || why || chr(31) || actor, 'UTF8'))
$$;

CREATE FUNCTION oncepay.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %.% is refused: it only grows', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'OP007';
END $$;

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['state_history', 'evidence', 'outbox', 'attempt_request'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON oncepay.%I
                        FOR EACH ROW EXECUTE FUNCTION oncepay.refuse_change()', t);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['stray_fact', 'attempt_step', 'provider_object'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON oncepay.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION oncepay.refuse_change()', t);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['payment', 'payment_operation', 'payment_attempt', 'active_payment', 'manual_case'] LOOP
        EXECUTE format('CREATE TRIGGER never_deleted BEFORE DELETE ON oncepay.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION oncepay.refuse_change()', t);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['state_history', 'evidence', 'outbox', 'attempt_request', 'stray_fact', 'payment',
                             'payment_operation', 'payment_attempt', 'active_payment', 'manual_case',
                             'idempotency_key', 'webhook_inbox', 'provider_object', 'attempt_step'] LOOP
        EXECUTE format('CREATE TRIGGER never_truncated BEFORE TRUNCATE ON oncepay.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION oncepay.refuse_change()', t);
    END LOOP;
    -- Statement triggers of a parent do not hold for its partitions.
    FOR t IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
              WHERE c.relnamespace = 'oncepay'::regnamespace AND c.relkind = 'r' LOOP
        EXECUTE format('CREATE TRIGGER never_truncated BEFORE TRUNCATE ON oncepay.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION oncepay.refuse_change()', t);
    END LOOP;
END $$;

-- payment ------------------------------------------------------------------------------------

CREATE FUNCTION oncepay.payment_guard_insert() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    all_rows  bigint;
    good_rows bigint;
BEGIN
    SELECT count(*) INTO all_rows FROM new_rows;
    SELECT count(*) INTO good_rows
      FROM new_rows n
      JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                     WHERE t.entity = 1 AND t.from_status = 0 AND t.to_status = n.status LIMIT 1) t ON true
      JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                     WHERE h.payment_id = n.id AND h.entity = 1 AND h.id = n.id AND h.version = 1
                       AND h.from_status = 0 AND h.to_status = n.status
                       AND h.hash = n.history_hash AND h.prev_hash = n.history_prev LIMIT 1) h ON true
     WHERE n.version = 1;
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'payment insert: birth state not listed, version not 1, or history missing'
            USING ERRCODE = 'OP005';
    END IF;
    SELECT count(*) INTO good_rows
      FROM new_rows n
      LEFT JOIN LATERAL (SELECT a.payment_id FROM oncepay.active_payment a
                          WHERE a.merchant = n.merchant AND a.target_kind = n.target_kind
                            AND a.target_id = n.target_id LIMIT 1) a ON true
     WHERE n.target_id IS NULL OR a.payment_id = n.id;
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'payment insert: the target''s pointer names another payment' USING ERRCODE = 'OP010';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER payment_guard_insert AFTER INSERT ON oncepay.payment
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION oncepay.payment_guard_insert();

CREATE FUNCTION oncepay.payment_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    all_rows  bigint;
    good_rows bigint;
BEGIN
    SELECT count(*) INTO all_rows FROM new_rows;
    SELECT count(*) INTO good_rows
      FROM new_rows n
      JOIN old_rows o ON o.id = n.id
      JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                     WHERE t.entity = 1 AND t.from_status = o.status AND t.to_status = n.status LIMIT 1) t ON true
      JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                     WHERE h.payment_id = n.id AND h.entity = 1 AND h.id = n.id AND h.version = n.version
                       AND h.from_status = o.status AND h.to_status = n.status
                       AND h.hash = n.history_hash AND h.prev_hash = o.history_hash LIMIT 1) h ON true
     WHERE n.version = o.version + 1 AND n.history_prev = o.history_hash
       AND n.merchant = o.merchant AND n.out_trade_no = o.out_trade_no
       AND n.amount IS NOT DISTINCT FROM o.amount AND n.currency IS NOT DISTINCT FROM o.currency
       AND n.target_kind IS NOT DISTINCT FROM o.target_kind AND n.target_id IS NOT DISTINCT FROM o.target_id
       AND n.method_type IS NOT DISTINCT FROM o.method_type AND n.method_token IS NOT DISTINCT FROM o.method_token
       AND n.capture_mode = o.capture_mode AND n.start_by = o.start_by AND n.created_at = o.created_at
       -- F: our own requests stay inside the bounds; facts from outside are never refused.
       AND (n.capture_requested <= o.capture_requested
            OR n.captured + n.capture_requested <= n.authorised + n.overcapture)
       AND (n.refund_requested <= o.refund_requested
            OR n.refunded + n.refund_requested + n.disputed <= n.captured);
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'payment update: transition not listed, version not + 1, history missing or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER payment_guard_update AFTER UPDATE ON oncepay.payment
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION oncepay.payment_guard_update();

-- active_payment -------------------------------------------------------------------------------

-- A pointer leaves a payment only when that one is over and nothing holds the target.
CREATE FUNCTION oncepay.pointer_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    all_rows  bigint;
    good_rows bigint;
BEGIN
    SELECT count(*) INTO all_rows FROM new_rows;
    SELECT count(*) INTO good_rows
      FROM new_rows n
      JOIN LATERAL (SELECT p.merchant, p.target_kind, p.target_id FROM oncepay.payment p
                     WHERE p.id = n.payment_id LIMIT 1) p ON true
     WHERE p.merchant = n.merchant AND p.target_kind = n.target_kind AND p.target_id = n.target_id;
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'pointer: it names a payment that is not of this target' USING ERRCODE = 'OP010';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        SELECT count(*) INTO good_rows
          FROM new_rows n
          JOIN old_rows o ON o.merchant = n.merchant AND o.target_kind = n.target_kind AND o.target_id = n.target_id
          LEFT JOIN LATERAL (SELECT p.status FROM oncepay.payment p WHERE p.id = o.payment_id LIMIT 1) p ON true
         WHERE n.version = o.version + 1
           AND (n.payment_id = o.payment_id OR (o.hold IS NULL AND p.status IN (70, 80, 90, 95)));
        IF good_rows <> all_rows THEN
            RAISE EXCEPTION 'pointer: moved away from a payment that is not over, or under a hold'
                USING ERRCODE = 'OP010';
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER pointer_guard_insert AFTER INSERT ON oncepay.active_payment
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION oncepay.pointer_guard();
CREATE TRIGGER pointer_guard_update AFTER UPDATE ON oncepay.active_payment
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION oncepay.pointer_guard();

-- payment_operation ----------------------------------------------------------------------------

CREATE FUNCTION oncepay.operation_guard_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM new_rows) <> (
        SELECT count(*)
          FROM new_rows n
          JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                         WHERE t.entity = 3 AND t.from_status = 0 AND t.to_status = n.status LIMIT 1) t ON true
          JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                         WHERE h.payment_id = n.payment_id AND h.entity = 3 AND h.id = n.id AND h.version = 1
                           AND h.from_status = 0 AND h.to_status = n.status
                           AND h.hash = n.history_hash AND h.prev_hash = n.history_prev LIMIT 1) h ON true
         WHERE n.version = 1) THEN
        RAISE EXCEPTION 'operation insert: birth state not listed, version not 1, or history missing'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER operation_guard_insert AFTER INSERT ON oncepay.payment_operation
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION oncepay.operation_guard_insert();

CREATE FUNCTION oncepay.operation_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM new_rows) <> (
        SELECT count(*)
          FROM new_rows n
          JOIN old_rows o ON o.id = n.id
          JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                         WHERE t.entity = 3 AND t.from_status = o.status AND t.to_status = n.status LIMIT 1) t ON true
          JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                         WHERE h.payment_id = n.payment_id AND h.entity = 3 AND h.id = n.id AND h.version = n.version
                           AND h.from_status = o.status AND h.to_status = n.status
                           AND h.hash = n.history_hash AND h.prev_hash = o.history_hash LIMIT 1) h ON true
         WHERE n.version = o.version + 1 AND n.history_prev = o.history_hash AND n.payment_id = o.payment_id
           AND n.kind = o.kind AND n.out_no = o.out_no AND n.amount IS NOT DISTINCT FROM o.amount
           AND n.currency IS NOT DISTINCT FROM o.currency) THEN
        RAISE EXCEPTION 'operation update: transition not listed, version not + 1, history missing or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER operation_guard_update AFTER UPDATE ON oncepay.payment_operation
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION oncepay.operation_guard_update();

-- payment_attempt ------------------------------------------------------------------------------

CREATE FUNCTION oncepay.attempt_guard_insert() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    all_rows  bigint;
    good_rows bigint;
BEGIN
    SELECT count(*) INTO all_rows FROM new_rows;
    SELECT count(*) INTO good_rows
      FROM new_rows n
      JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                     WHERE t.entity = 2 AND t.from_status = 0 AND t.to_status = n.status LIMIT 1) t ON true
      JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                     WHERE h.payment_id = n.payment_id AND h.entity = 2 AND h.id = n.id AND h.version = 1
                       AND h.from_status = 0 AND h.to_status = n.status
                       AND h.hash = n.history_hash AND h.prev_hash = n.history_prev LIMIT 1) h ON true
     WHERE n.version = 1;
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'attempt insert: birth state not listed, version not 1, or history missing'
            USING ERRCODE = 'OP005';
    END IF;
    -- I4: attempt n + 1 only after n failed with proof and the guard's decision; n is final, so frozen.
    IF EXISTS (SELECT FROM new_rows n
                WHERE n.ordinal > 1
                  AND (n.guard_decision IS NULL OR NOT EXISTS (
                        SELECT FROM oncepay.payment_attempt a
                         WHERE a.payment_id = n.payment_id AND a.operation = n.operation AND a.number = n.number
                           AND a.ordinal = n.ordinal - 1 AND a.status = 60 AND a.certainty IN (2, 3)))) THEN
        RAISE EXCEPTION 'attempt insert: the attempt before it is not proven failed' USING ERRCODE = 'OP004';
    END IF;
    -- I19: what follows a create goes to the account of a create.
    IF EXISTS (SELECT FROM new_rows n
                WHERE n.operation <> 1 AND n.channel_account <> ALL (ARRAY(
                        SELECT a.channel_account FROM oncepay.payment_attempt a
                         WHERE a.payment_id = n.payment_id AND a.operation = 1))) THEN
        RAISE EXCEPTION 'attempt insert: not at the account of the create' USING ERRCODE = 'OP004';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER attempt_guard_insert AFTER INSERT ON oncepay.payment_attempt
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION oncepay.attempt_guard_insert();

CREATE FUNCTION oncepay.attempt_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    all_rows  bigint;
    good_rows bigint;
    ends      bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE status >= 50) INTO all_rows, ends FROM new_rows;
    SELECT count(*) INTO good_rows
      FROM new_rows n
      JOIN old_rows o ON o.id = n.id
      JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                     WHERE t.entity = 2 AND t.from_status = o.status AND t.to_status = n.status LIMIT 1) t ON true
      JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                     WHERE h.payment_id = n.payment_id AND h.entity = 2 AND h.id = n.id AND h.version = n.version
                       AND h.from_status = o.status AND h.to_status = n.status
                       AND h.hash = n.history_hash AND h.prev_hash = o.history_hash LIMIT 1) h ON true
     WHERE n.version = o.version + 1 AND n.history_prev = o.history_hash
       AND n.payment_id = o.payment_id AND n.operation = o.operation AND n.number = o.number
       AND n.ordinal = o.ordinal AND n.channel_account = o.channel_account
       AND n.amount = o.amount AND n.currency = o.currency AND n.method_type = o.method_type
       AND n.provider_key = o.provider_key AND n.request_hash = o.request_hash
       AND n.request_bytes = o.request_bytes
       AND (o.first_sent_at IS NULL OR n.first_sent_at = o.first_sent_at)
       AND (n.status <> 20 OR n.first_sent_at IS NOT NULL);
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'attempt update: transition not listed, version not + 1, history missing or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    IF ends > 0 THEN
        -- I6: an end cites evidence of this attempt that proves exactly it.
        SELECT count(*) INTO good_rows
          FROM new_rows n
          JOIN old_rows o ON o.id = n.id
          JOIN LATERAL (SELECT e.source FROM oncepay.evidence e
                         WHERE e.payment_id = n.payment_id AND e.id = n.evidence_id AND e.attempt_id = n.id
                           AND e.proves = n.certainty
                           AND ((n.status = 50 AND e.proves = 5) OR (n.status = 60 AND e.proves IN (2, 3)))
                         LIMIT 1) e ON true
         WHERE n.status >= 50
           AND (e.source <> 1 OR (o.status = 10 AND n.certainty = 2 AND NOT EXISTS (
                   SELECT FROM oncepay.attempt_request r
                    WHERE r.payment_id = n.payment_id AND r.attempt_id = n.id AND r.kind IN (1, 2)
                      AND NOT EXISTS (SELECT FROM oncepay.evidence u
                                       WHERE u.payment_id = r.payment_id AND u.request_id = r.id
                                         AND u.closure = 1))));
        IF good_rows <> ends THEN
            RAISE EXCEPTION 'attempt update: no evidence of this attempt proves its end' USING ERRCODE = 'OP006';
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER attempt_guard_update AFTER UPDATE ON oncepay.payment_attempt
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION oncepay.attempt_guard_update();

-- recovery_task --------------------------------------------------------------------------------

-- Moving a due time or a lease inside one status is no transition; it still raises the version.
CREATE FUNCTION oncepay.task_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM new_rows) <> (
        SELECT count(*)
          FROM new_rows n
          JOIN old_rows o ON o.id = n.id
          LEFT JOIN LATERAL (SELECT 1 AS listed FROM oncepay.state_transition t
                              WHERE t.entity = 4 AND t.from_status = o.status AND t.to_status = n.status
                              LIMIT 1) t ON true
         WHERE (t.listed = 1 OR (n.status = o.status AND n.status <> 50)) AND n.version = o.version + 1 AND n.attempt_id = o.attempt_id
           AND n.policy_version = o.policy_version) THEN
        RAISE EXCEPTION 'task update: transition not listed, version not + 1 or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER task_guard_update AFTER UPDATE ON oncepay.recovery_task
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION oncepay.task_guard_update();
