-- 0004: fewer bytes per payment, and guards that cost the same per row whatever the batch.
--
-- Columns that said twice what stands elsewhere:
--   * state_history.hash: a link's hash is the prev_hash of the next one, and the last one's is the head
--     in the entity's row. The guards now compute the link themselves instead of believing it, so a row
--     that was not hashed honestly is refused at once and not found by `verify` later.
--   * history_prev: the head before; who moves a row can still see it as the statement's snapshot shows it.
--
-- What a transition changes on a payment now lies side by side at the row's end: an update is logged from
-- the first byte that changed to the last, and amounts, times and metadata lay in between.
--
-- outbox_pk: a row is looked up by its id only when a stream is lost. Five index entries a payment were the
-- price; a block range index costs none, since ids (UUIDv7) come nearly in the order of the pages. An id is
-- drawn once, and a row is fed by one that has a key of its own (a command sent once more may have a copy).
--
-- The guards: a trigger's plan is made when the first batch comes, often a batch of one row, and kept. To
-- the planner one old and one new row are best joined by a nested loop, and every later batch of 256
-- compared 65,536 pairs: 100 us a row. A FULL JOIN has no such plan, it is hashed (or merged), and a row
-- without its partner, whose id was changed, comes out with NULL and is refused like any other.
-- MATERIALIZED keeps the planner from making an inner join of it again. Likewise an EXISTS below an OR may
-- become a hash of the whole table, a count never does. What they refuse is as in 0002.

ALTER TABLE oncepay.payment DISABLE TRIGGER USER;
ALTER TABLE oncepay.payment
    ADD COLUMN authorised_      bigint,
    ADD COLUMN captured_        bigint,
    ADD COLUMN version_         int,
    ADD COLUMN applied_version_ int,
    ADD COLUMN status_          smallint,
    ADD COLUMN certainty_       smallint,
    ADD COLUMN announced_       smallint,
    ADD COLUMN applied_attempt_ uuid,
    ADD COLUMN history_hash_    bytea,
    ADD COLUMN reason_          text,
    ADD COLUMN next_action_     jsonb;
UPDATE oncepay.payment
   SET authorised_ = authorised, captured_ = captured, version_ = version, applied_version_ = applied_version,
       status_ = status, certainty_ = certainty, announced_ = announced, applied_attempt_ = applied_attempt,
       history_hash_ = history_hash, reason_ = reason, next_action_ = next_action;
DO $$
DECLARE
    c text;
BEGIN
    FOREACH c IN ARRAY ARRAY['authorised', 'captured', 'version', 'applied_version', 'status', 'certainty',
                             'announced', 'applied_attempt', 'history_hash', 'reason', 'next_action'] LOOP
        EXECUTE format('ALTER TABLE oncepay.payment DROP COLUMN %I', c);
        EXECUTE format('ALTER TABLE oncepay.payment RENAME COLUMN %I TO %I', c || '_', c);
    END LOOP;
END $$;
ALTER TABLE oncepay.payment
    DROP COLUMN history_prev,
    ALTER COLUMN authorised SET NOT NULL, ALTER COLUMN authorised SET DEFAULT 0,
    ALTER COLUMN captured SET NOT NULL, ALTER COLUMN captured SET DEFAULT 0,
    ALTER COLUMN version SET NOT NULL,
    ALTER COLUMN status SET NOT NULL,
    ALTER COLUMN certainty SET NOT NULL,
    ALTER COLUMN announced SET NOT NULL, ALTER COLUMN announced SET DEFAULT 0,
    ALTER COLUMN history_hash SET NOT NULL,
    ADD CHECK (authorised >= 0), ADD CHECK (captured >= 0), ADD CHECK (version >= 1),
    ADD CHECK (status = 95 OR (amount IS NOT NULL AND currency IS NOT NULL AND target_kind IS NOT NULL
                               AND method_type IS NOT NULL));
ALTER TABLE oncepay.payment ENABLE TRIGGER USER;

ALTER TABLE oncepay.payment_operation DROP COLUMN history_prev;
ALTER TABLE oncepay.payment_attempt DROP COLUMN history_prev;
ALTER TABLE oncepay.state_history DROP COLUMN hash;
ALTER TABLE oncepay.outbox DROP CONSTRAINT outbox_pk;
CREATE INDEX outbox_id ON oncepay.outbox USING brin (id) WITH (pages_per_range = 128, autosummarize = on);
-- Events of no payment: refusals, whose ids are made from the message.
CREATE UNIQUE INDEX outbox_refusal ON oncepay.outbox (id) WHERE kind = 2 AND payment_id IS NULL;

-- The first events whose ids lie between two, in the order of their ids. Stages plan without bitmaps, since their
-- plans are kept; here is what needs one.
CREATE FUNCTION oncepay.first_events(low uuid, high uuid, how_many int) RETURNS TABLE (xid xid8, id uuid)
LANGUAGE sql STABLE SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
    SELECT o.xid, o.id FROM oncepay.outbox o
     WHERE o.id BETWEEN low AND high AND o.kind = 2 ORDER BY o.id LIMIT how_many
$$;

-- The time of a UUIDv7; what uuid_floor makes of a time, read back.
CREATE FUNCTION oncepay.uuid_time(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
$$;

-- Is this the history row of that transition, and does the row's head follow from it?
CREATE FUNCTION oncepay.is_linked(h oncepay.state_history, head bytea) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT head = oncepay.history_link(h.prev_hash, h.entity, h.id, h.version, h.from_status, h.to_status, h.event,
                                       h.why, h.actor, h.evidence_id, h.at)
$$;

CREATE OR REPLACE FUNCTION oncepay.payment_guard_insert() RETURNS trigger LANGUAGE plpgsql AS $$
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
                       AND h.prev_hash = decode(repeat('00', 32), 'hex')
                       AND oncepay.is_linked(h, n.history_hash) LIMIT 1) h ON true
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

CREATE OR REPLACE FUNCTION oncepay.payment_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM new_rows) <> (
        WITH moved AS MATERIALIZED (
            SELECT n.id, n.version, o.status AS from_status, n.status AS to_status,
                   o.history_hash AS prev_hash, n.history_hash,
                   n.version = o.version + 1
                   AND n.merchant = o.merchant AND n.out_trade_no = o.out_trade_no
                   AND n.amount IS NOT DISTINCT FROM o.amount AND n.currency IS NOT DISTINCT FROM o.currency
                   AND n.target_kind IS NOT DISTINCT FROM o.target_kind
                   AND n.target_id IS NOT DISTINCT FROM o.target_id
                   AND n.method_type IS NOT DISTINCT FROM o.method_type
                   AND n.method_token IS NOT DISTINCT FROM o.method_token
                   AND n.capture_mode = o.capture_mode AND n.start_by = o.start_by AND n.created_at = o.created_at
                   -- F: our own requests stay inside the bounds; facts from outside are never refused.
                   AND (n.capture_requested <= o.capture_requested
                        OR n.captured + n.capture_requested <= n.authorised + n.overcapture)
                   AND (n.refund_requested <= o.refund_requested
                        OR n.refunded + n.refund_requested + n.disputed <= n.captured) AS is_kept
              FROM new_rows n FULL JOIN old_rows o ON o.id = n.id)
        SELECT count(*)
          FROM moved m
          JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                         WHERE t.entity = 1 AND t.from_status = m.from_status AND t.to_status = m.to_status
                         LIMIT 1) t ON true
          JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                         WHERE h.payment_id = m.id AND h.entity = 1 AND h.id = m.id AND h.version = m.version
                           AND h.from_status = m.from_status AND h.to_status = m.to_status
                           AND h.prev_hash = m.prev_hash AND oncepay.is_linked(h, m.history_hash) LIMIT 1) h ON true
         WHERE m.is_kept) THEN
        RAISE EXCEPTION 'payment update: transition not listed, version not + 1, history missing or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION oncepay.operation_guard_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM new_rows) <> (
        SELECT count(*)
          FROM new_rows n
          JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                         WHERE t.entity = 3 AND t.from_status = 0 AND t.to_status = n.status LIMIT 1) t ON true
          JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                         WHERE h.payment_id = n.payment_id AND h.entity = 3 AND h.id = n.id AND h.version = 1
                           AND h.from_status = 0 AND h.to_status = n.status
                           AND oncepay.is_linked(h, n.history_hash) LIMIT 1) h ON true
         WHERE n.version = 1) THEN
        RAISE EXCEPTION 'operation insert: birth state not listed, version not 1, or history missing'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION oncepay.operation_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM new_rows) <> (
        WITH moved AS MATERIALIZED (
            SELECT n.id, n.payment_id, n.version, o.status AS from_status, n.status AS to_status,
                   o.history_hash AS prev_hash, n.history_hash,
                   n.version = o.version + 1 AND n.payment_id = o.payment_id
                   AND n.kind = o.kind AND n.out_no = o.out_no AND n.amount IS NOT DISTINCT FROM o.amount
                   AND n.currency IS NOT DISTINCT FROM o.currency AS is_kept
              FROM new_rows n FULL JOIN old_rows o ON o.id = n.id)
        SELECT count(*)
          FROM moved m
          JOIN LATERAL (SELECT 1 FROM oncepay.state_transition t
                         WHERE t.entity = 3 AND t.from_status = m.from_status AND t.to_status = m.to_status
                         LIMIT 1) t ON true
          JOIN LATERAL (SELECT 1 FROM oncepay.state_history h
                         WHERE h.payment_id = m.payment_id AND h.entity = 3 AND h.id = m.id AND h.version = m.version
                           AND h.from_status = m.from_status AND h.to_status = m.to_status
                           AND h.prev_hash = m.prev_hash AND oncepay.is_linked(h, m.history_hash) LIMIT 1) h ON true
         WHERE m.is_kept) THEN
        RAISE EXCEPTION 'operation update: transition not listed, version not + 1, history missing or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION oncepay.attempt_guard_insert() RETURNS trigger LANGUAGE plpgsql AS $$
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
                       AND oncepay.is_linked(h, n.history_hash) LIMIT 1) h ON true
     WHERE n.version = 1;
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'attempt insert: birth state not listed, version not 1, or history missing'
            USING ERRCODE = 'OP005';
    END IF;
    -- I4: attempt n + 1 only after n failed with proof and the guard's decision; n is final, so frozen.
    IF EXISTS (SELECT FROM new_rows n
                WHERE n.ordinal > 1
                  AND (n.guard_decision IS NULL OR 1 <> (
                        SELECT count(*) FROM oncepay.payment_attempt a
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

CREATE OR REPLACE FUNCTION oncepay.attempt_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    all_rows    bigint;
    all_ends    bigint;
    good_rows   bigint;
    proven_ends bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE status >= 50) INTO all_rows, all_ends FROM new_rows;
    WITH moved AS MATERIALIZED (
        SELECT n.id, n.payment_id, n.version, o.status AS from_status, n.status AS to_status, n.certainty,
               n.evidence_id, o.history_hash AS prev_hash, n.history_hash,
               n.version = o.version + 1
               AND n.payment_id = o.payment_id AND n.operation = o.operation AND n.number = o.number
               AND n.ordinal = o.ordinal AND n.channel_account = o.channel_account
               AND n.amount = o.amount AND n.currency = o.currency AND n.method_type = o.method_type
               AND n.provider_key = o.provider_key AND n.request_hash = o.request_hash
               AND n.request_bytes = o.request_bytes
               AND (o.first_sent_at IS NULL OR n.first_sent_at = o.first_sent_at)
               AND (n.status <> 20 OR n.first_sent_at IS NOT NULL) AS is_kept
          FROM new_rows n FULL JOIN old_rows o ON o.id = n.id)
    SELECT count(*) FILTER (WHERE m.is_kept AND t.is_listed AND h.is_there),
           -- I6: an end cites evidence of this attempt that proves exactly it. Local evidence proves it only
           -- from CREATED, with every request closed as unsent.
           count(*) FILTER (WHERE e.source <> 1
                               OR (e.source = 1 AND m.from_status = 10 AND m.certainty = 2 AND 0 = (
                                      SELECT count(*) FROM oncepay.attempt_request r
                                       WHERE r.payment_id = m.payment_id AND r.attempt_id = m.id AND r.kind IN (1, 2)
                                         AND 0 = (SELECT count(*) FROM oncepay.evidence u
                                                   WHERE u.payment_id = r.payment_id AND u.request_id = r.id
                                                     AND u.closure = 1))))
      INTO good_rows, proven_ends
      FROM moved m
      LEFT JOIN LATERAL (SELECT true AS is_listed FROM oncepay.state_transition t
                          WHERE t.entity = 2 AND t.from_status = m.from_status AND t.to_status = m.to_status
                          LIMIT 1) t ON true
      LEFT JOIN LATERAL (SELECT true AS is_there FROM oncepay.state_history h
                          WHERE h.payment_id = m.payment_id AND h.entity = 2 AND h.id = m.id AND h.version = m.version
                            AND h.from_status = m.from_status AND h.to_status = m.to_status
                            AND h.prev_hash = m.prev_hash AND oncepay.is_linked(h, m.history_hash) LIMIT 1) h ON true
      LEFT JOIN LATERAL (SELECT e.source FROM oncepay.evidence e
                          WHERE m.to_status >= 50 AND e.payment_id = m.payment_id AND e.id = m.evidence_id
                            AND e.attempt_id = m.id AND e.proves = m.certainty
                            AND ((m.to_status = 50 AND e.proves = 5) OR (m.to_status = 60 AND e.proves IN (2, 3)))
                          LIMIT 1) e ON true;
    IF good_rows <> all_rows THEN
        RAISE EXCEPTION 'attempt update: transition not listed, version not + 1, history missing or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    IF proven_ends <> all_ends THEN
        RAISE EXCEPTION 'attempt update: no evidence of this attempt proves its end' USING ERRCODE = 'OP006';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION oncepay.task_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM new_rows) <> (
        WITH moved AS MATERIALIZED (
            SELECT o.status AS from_status, n.status AS to_status,
                   n.version = o.version + 1 AND n.attempt_id = o.attempt_id
                   AND n.policy_version = o.policy_version AS is_kept
              FROM new_rows n FULL JOIN old_rows o ON o.id = n.id)
        SELECT count(*)
          FROM moved m
          LEFT JOIN LATERAL (SELECT true AS is_listed FROM oncepay.state_transition t
                              WHERE t.entity = 4 AND t.from_status = m.from_status AND t.to_status = m.to_status
                              LIMIT 1) t ON true
         WHERE m.is_kept AND (t.is_listed OR (m.to_status = m.from_status AND m.to_status <> 50))) THEN
        RAISE EXCEPTION 'task update: transition not listed, version not + 1 or a fixed column changed'
            USING ERRCODE = 'OP005';
    END IF;
    RETURN NULL;
END $$;

-- A pointer leaves a payment only when that one is over and nothing holds the target.
CREATE OR REPLACE FUNCTION oncepay.pointer_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    all_rows bigint;
BEGIN
    SELECT count(*) INTO all_rows FROM new_rows;
    IF all_rows <> (
        SELECT count(*)
          FROM new_rows n
          JOIN LATERAL (SELECT p.merchant, p.target_kind, p.target_id FROM oncepay.payment p
                         WHERE p.id = n.payment_id LIMIT 1) p ON true
         WHERE p.merchant = n.merchant AND p.target_kind = n.target_kind AND p.target_id = n.target_id) THEN
        RAISE EXCEPTION 'pointer: it names a payment that is not of this target' USING ERRCODE = 'OP010';
    END IF;
    IF TG_OP = 'UPDATE' THEN -- alone: an insert has no old rows, and an expression is planned whole
        IF all_rows <> (
            WITH moved AS MATERIALIZED (
                SELECT o.payment_id AS old_payment, n.version = o.version + 1 AS is_next,
                       n.payment_id = o.payment_id AS stays, o.hold IS NULL AS is_free
                  FROM new_rows n
                  FULL JOIN old_rows o ON o.merchant = n.merchant AND o.target_kind = n.target_kind
                                      AND o.target_id = n.target_id)
            SELECT count(*)
              FROM moved m
              LEFT JOIN LATERAL (SELECT p.status FROM oncepay.payment p WHERE p.id = m.old_payment LIMIT 1) p ON true
             WHERE m.is_next AND (m.stays OR (m.is_free AND p.status IN (70, 80, 90, 95)))) THEN
            RAISE EXCEPTION 'pointer: moved away from a payment that is not over, or under a hold'
                USING ERRCODE = 'OP010';
        END IF;
    END IF;
    RETURN NULL;
END $$;
