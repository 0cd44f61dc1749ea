-- 0001: the tables of protocol K, in their final shape. Forward only; every later change is a new file.
--
-- Why it is shaped so:
--   * status codes are those of pipeline/state.h and never renumbered;
--   * no index on payment, payment_operation or payment_attempt names a column that a transition
--     changes (HOT updates, protocol H8); what waits is found in small tables of its own;
--   * history, evidence and requests are partitioned by range of payment id (UUIDv7, so: by time),
--     the outbox by its own id; partitions are made ahead by oncepay.make_partitions;
--   * the guards stand in 0002: here is what the rows are, there is what the database refuses.

CREATE TABLE oncepay.merchant (
    id         text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9_-]{1,64}$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE oncepay.capability (
    psp        text NOT NULL,
    version    int NOT NULL,
    facts      jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (psp, version)
);

CREATE TABLE oncepay.channel_account (
    id                 text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9_-]{1,64}$'),
    psp                text NOT NULL,
    failure_domain     text NOT NULL,
    capability_version int NOT NULL,
    updated_at         timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (psp, capability_version) REFERENCES oncepay.capability
);

-- Filled by `oncepay migrate` from pipeline/transition.def, the one place where transitions stand.
CREATE TABLE oncepay.state_transition (
    entity      smallint NOT NULL,
    from_status smallint NOT NULL, -- 0: the row's birth
    to_status   smallint NOT NULL,
    why         text NOT NULL,
    PRIMARY KEY (entity, from_status, to_status)
);

CREATE TABLE oncepay.idempotency_key (
    merchant            text NOT NULL,
    operation           smallint NOT NULL,
    key_hash            bytea NOT NULL CHECK (octet_length(key_hash) = 32),
    fingerprint         bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    fingerprint_version smallint NOT NULL,
    payment_id          uuid,
    answer_status       smallint NOT NULL,
    answer_headers      text NOT NULL, -- "name: value" lines
    answer_body         bytea NOT NULL,
    expires_at          timestamptz NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_key_pk PRIMARY KEY (merchant, operation, key_hash)
) PARTITION BY HASH (merchant, operation, key_hash);
DO $$
BEGIN
    FOR i IN 0..15 LOOP
        EXECUTE format('CREATE TABLE oncepay.idempotency_key_%s PARTITION OF oncepay.idempotency_key
                        FOR VALUES WITH (MODULUS 16, REMAINDER %s)', lpad(i::text, 2, '0'), i);
    END LOOP;
END $$;

CREATE TABLE oncepay.payment (
    id                uuid NOT NULL,
    merchant          text NOT NULL,
    out_trade_no      text NOT NULL CHECK (length(out_trade_no) BETWEEN 1 AND 64),
    target_kind       text,            -- NULL only in a cancel tombstone; 'none': no object, no barrier
    target_id         text,            -- NULL when there is no object
    amount            bigint CHECK (amount > 0),
    currency          text CHECK (currency ~ '^[A-Z]{3}$'),
    method_type       text,
    method_token      text,            -- never logged, never in an event
    token_realm       text,
    capture_mode      smallint NOT NULL DEFAULT 1, -- 1 automatic, 2 manual
    status            smallint NOT NULL,
    version           int NOT NULL CHECK (version >= 1),
    certainty         smallint NOT NULL,
    reason            text,
    announced         smallint NOT NULL DEFAULT 0, -- bits: 1 processing, 2 unknown, 4 action_required
    authorised        bigint NOT NULL DEFAULT 0 CHECK (authorised >= 0),
    captured          bigint NOT NULL DEFAULT 0 CHECK (captured >= 0),
    capture_requested bigint NOT NULL DEFAULT 0 CHECK (capture_requested >= 0),
    refunded          bigint NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    refund_requested  bigint NOT NULL DEFAULT 0 CHECK (refund_requested >= 0),
    disputed          bigint NOT NULL DEFAULT 0 CHECK (disputed >= 0),
    overcapture       bigint NOT NULL DEFAULT 0 CHECK (overcapture >= 0),
    start_by          timestamptz NOT NULL,
    expires_at        timestamptz,
    next_action       jsonb,
    applied_attempt   uuid,            -- the attempt whose news was applied last …
    applied_version   int,             -- … and its version then
    return_url        text,
    metadata          jsonb,
    traceparent       text,
    history_hash      bytea NOT NULL,  -- head of this row's history chain
    history_prev      bytea NOT NULL,  -- the head before it: what the guard links new history to
    created_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT payment_pk PRIMARY KEY (id),
    CONSTRAINT payment_out_trade_no_key UNIQUE (merchant, out_trade_no),
    CHECK (target_kind IS NULL OR (target_kind = 'none') = (target_id IS NULL)),
    CHECK (status = 95 OR (amount IS NOT NULL AND currency IS NOT NULL AND target_kind IS NOT NULL
                           AND method_type IS NOT NULL))
) WITH (fillfactor = 50);

-- Never deleted: it names the last payment of a target (protocol E).
CREATE TABLE oncepay.active_payment (
    merchant    text NOT NULL,
    target_kind text NOT NULL CHECK (target_kind <> 'none'),
    target_id   text NOT NULL,
    payment_id  uuid NOT NULL,
    version     int NOT NULL CHECK (version >= 1),
    hold        text, -- NULL: free to be paid when the payment named is over
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT active_payment_pk PRIMARY KEY (merchant, target_kind, target_id)
) WITH (fillfactor = 70);

CREATE TABLE oncepay.payment_operation (
    id              uuid NOT NULL,
    payment_id      uuid NOT NULL,
    kind            smallint NOT NULL CHECK (kind BETWEEN 2 AND 5),
    out_no          text NOT NULL CHECK (length(out_no) BETWEEN 1 AND 64),
    amount          bigint CHECK (amount > 0),
    currency        text CHECK (currency ~ '^[A-Z]{3}$'),
    final           boolean NOT NULL DEFAULT false,
    stray_fact_id   uuid, -- a refund or void that gives a stray fact's money back names it
    status          smallint NOT NULL,
    version         int NOT NULL CHECK (version >= 1),
    reason          text,
    applied_attempt uuid,
    applied_version int,
    history_hash    bytea NOT NULL,
    history_prev    bytea NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT payment_operation_pk PRIMARY KEY (id),
    CONSTRAINT payment_operation_out_no_key UNIQUE (payment_id, kind, out_no)
) WITH (fillfactor = 50);

CREATE TABLE oncepay.payment_attempt (
    id                  uuid NOT NULL,
    payment_id          uuid NOT NULL,
    operation_id        uuid,          -- NULL for a create: the payment stands for it
    operation           smallint NOT NULL CHECK (operation BETWEEN 1 AND 5),
    number              int NOT NULL CHECK (number >= 1),  -- which operation of this kind
    ordinal             int NOT NULL CHECK (ordinal >= 1), -- which try of that operation
    channel_account     text NOT NULL,
    method_type         text NOT NULL,
    amount              bigint NOT NULL CHECK (amount > 0),
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    provider_key        text NOT NULL,
    request_hash        bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    request_bytes       bytea NOT NULL,
    provider_payment_id text,
    status              smallint NOT NULL,
    certainty           smallint NOT NULL,
    decline_class       smallint NOT NULL DEFAULT 0,
    error_code          text,
    evidence_id         uuid,          -- what proves a final status
    handed_out          boolean NOT NULL DEFAULT false, -- a next action reached the customer (protocol B3)
    policy_version      text,          -- recovery policy pinned at the first UNKNOWN
    routing_version     text,
    guard_decision      text,          -- why attempt n+1 was allowed (I4)
    first_sent_at       timestamptz,   -- first fence; counts key retention and replay_until
    version             int NOT NULL CHECK (version >= 1),
    history_hash        bytea NOT NULL,
    history_prev        bytea NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT payment_attempt_pk PRIMARY KEY (id),
    CONSTRAINT payment_attempt_ordinal_key UNIQUE (payment_id, operation, number, ordinal),
    CONSTRAINT payment_attempt_provider_key UNIQUE (channel_account, provider_key)
) WITH (fillfactor = 50);

-- What an attempt sends at one step has one hash (I3); attempts with one step need no row here.
CREATE TABLE oncepay.attempt_step (
    attempt_id    uuid NOT NULL,
    step          smallint NOT NULL CHECK (step >= 2),
    provider_key  text NOT NULL,
    request_hash  bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    request_bytes bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (attempt_id, step)
);

-- Which attempt a PSP object belongs to; insert-only, so that payment_attempt needs no index on a
-- column that changes.
CREATE TABLE oncepay.provider_object (
    channel_account text NOT NULL,
    object          text NOT NULL,
    attempt_id      uuid NOT NULL,
    payment_id      uuid NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT provider_object_pk PRIMARY KEY (channel_account, object, attempt_id)
);

-- Insert-only: the row is committed before the first byte leaves (I20). How it ended stands in the
-- evidence row that names it.
CREATE TABLE oncepay.attempt_request (
    payment_id uuid NOT NULL,
    id         uuid NOT NULL,
    attempt_id uuid NOT NULL,
    kind       smallint NOT NULL, -- enum request_kind
    step       smallint NOT NULL DEFAULT 1,
    send_by    timestamptz NOT NULL,
    worker     text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT attempt_request_pk PRIMARY KEY (payment_id, id)
) PARTITION BY RANGE (payment_id);

-- One row per fence commit; deleted when all its attempts have results. When due, recover moves
-- those still SENDING to UNKNOWN (protocol C2).
CREATE TABLE oncepay.fence_batch (
    id              uuid PRIMARY KEY,
    channel_account text NOT NULL,
    worker          text NOT NULL,
    attempts        uuid[] NOT NULL,
    due_at          timestamptz NOT NULL, -- send_by + call limit + 5 s; then: lease expiry of who works on it
    version         int NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX fence_batch_due ON oncepay.fence_batch (due_at, id);

CREATE TABLE oncepay.evidence (
    payment_id      uuid NOT NULL,
    id              uuid NOT NULL,
    attempt_id      uuid NOT NULL,
    request_id      uuid,              -- the request that this observation closes
    source          smallint NOT NULL, -- enum evidence_source
    kind            smallint NOT NULL, -- enum observation_kind
    phase           smallint NOT NULL, -- enum request_phase; answered for webhooks
    http_status     smallint,
    error_code      text,
    provider_status text,
    provider_object text,
    provider_event  text,
    reference       text,
    amount          bigint,
    currency        text,
    observed_at     timestamptz,       -- the PSP's own time of the fact
    strength        smallint NOT NULL,
    proves          smallint,          -- enum certainty; NULL: decides nothing
    closure         smallint NOT NULL DEFAULT 0, -- of the request: 0 may have had an effect, 1 proven to have
                                                 -- had none, 2 its outcome is known
    digest          bytea NOT NULL,
    excerpt         text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT evidence_pk PRIMARY KEY (payment_id, id)
) PARTITION BY RANGE (payment_id);

-- One row per version of each payment, operation and attempt; a hash chain per entity.
CREATE TABLE oncepay.state_history (
    payment_id      uuid NOT NULL,
    entity          smallint NOT NULL,
    id              uuid NOT NULL,
    version         int NOT NULL,
    from_status     smallint NOT NULL,
    to_status       smallint NOT NULL,
    event           text NOT NULL, -- what happened: "answer.succeeded"
    why             text NOT NULL, -- the reason code or sentence that decided
    actor           text NOT NULL, -- process and instance, or a person
    evidence_id     uuid,
    policy_version  text,
    routing_version text,
    prev_hash       bytea NOT NULL,
    hash            bytea NOT NULL,
    at              timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT state_history_pk PRIMARY KEY (payment_id, entity, id, version)
) PARTITION BY RANGE (payment_id);

CREATE TABLE oncepay.outbox (
    id         uuid NOT NULL,
    kind       smallint NOT NULL CHECK (kind IN (1, 2)), -- 1 command, 2 event
    subject    text NOT NULL,
    entity     smallint NOT NULL,
    entity_id  uuid NOT NULL,
    version    int NOT NULL,
    payment_id uuid,
    body       bytea,          -- events only: commands are their columns
    headers    text,           -- events only: "name: value" lines
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT outbox_pk PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX outbox_event ON oncepay.outbox (xid, id) WHERE kind = 2;
CREATE INDEX outbox_command ON oncepay.outbox (subject, created_at) WHERE kind = 1;

-- Where the relay stands: one row per command subject, one per event shard, one per stream.
CREATE TABLE oncepay.relay_position (
    name              text PRIMARY KEY, -- "command:pay.route.3", "event:0", "stream:PAY_EVENT"
    mark_at           timestamptz,
    mark_xid          xid8,
    system_identifier bigint,           -- of the database that drew the xid
    stream_created    text,
    stream_last       bigint,
    run               int NOT NULL DEFAULT 0,
    updated_at        timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE oncepay.recovery_policy (
    version    text PRIMARY KEY,
    body       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE oncepay.recovery_task (
    id               uuid NOT NULL,
    payment_id       uuid NOT NULL,
    attempt_id       uuid NOT NULL,
    channel_account  text NOT NULL,
    method_type      text NOT NULL,
    operation        smallint NOT NULL,
    amount           bigint NOT NULL,
    currency         text NOT NULL,
    purpose          smallint NOT NULL, -- 1 resolve (find out), 2 resend (proven unsent, same key again)
    status           smallint NOT NULL,
    due_at           timestamptz NOT NULL, -- while LEASED: when the lease runs out
    lease_owner      text,
    step             int NOT NULL DEFAULT 0,   -- position in the policy's delays
    claims           int NOT NULL DEFAULT 0,   -- claims since the last stored outcome
    stored_error     boolean NOT NULL DEFAULT false, -- the key answers with a stored error: look it up instead
    policy_version   text NOT NULL,
    first_unknown_at timestamptz NOT NULL DEFAULT now(),
    escalated_at     timestamptz,
    version          int NOT NULL CHECK (version >= 1),
    created_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT recovery_task_pk PRIMARY KEY (id)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX recovery_task_open ON oncepay.recovery_task (attempt_id) WHERE status <> 50;
CREATE INDEX recovery_task_due ON oncepay.recovery_task (channel_account, due_at, id) WHERE status IN (10, 20, 40);
CREATE INDEX recovery_task_unresolved ON oncepay.recovery_task (channel_account, first_unknown_at)
    WHERE status <> 50;

-- Waits of other kinds, claimed like tasks; deleted when done.
CREATE TABLE oncepay.payment_timer (
    id         uuid PRIMARY KEY,
    payment_id uuid NOT NULL,
    kind       smallint NOT NULL, -- 1 lift the hold of the target
    due_at     timestamptz NOT NULL,
    version    int NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (payment_id, kind)
);
CREATE INDEX payment_timer_due ON oncepay.payment_timer (due_at, id);

-- Messages that were singled out (protocol H6); only these are counted, and only by trials.
CREATE TABLE oncepay.delivery_trial (
    consumer   text NOT NULL,
    message    text NOT NULL, -- outbox id of the command, or digest of a producer's message
    trials     int NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, message)
);

CREATE TABLE oncepay.dead_letter (
    id            uuid PRIMARY KEY,
    consumer      text NOT NULL,
    subject       text NOT NULL,
    sequence      bigint,
    deliveries    bigint,
    headers       text NOT NULL,
    body          bytea NOT NULL, -- raw, but for masked card numbers and the method token
    method_token  text,           -- read only by a replay
    code          text NOT NULL,
    field         text,
    problem       text NOT NULL,  -- problem details, JSON
    payment_id    uuid,
    case_id       uuid,
    stored_at     timestamptz,    -- when the message first reached its stream
    replays       int NOT NULL DEFAULT 0,
    replayed_at   timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dead_letter_created ON oncepay.dead_letter (created_at, id);
CREATE INDEX dead_letter_payment ON oncepay.dead_letter (payment_id) WHERE payment_id IS NOT NULL;

CREATE TABLE oncepay.webhook_inbox (
    id              uuid PRIMARY KEY,
    channel_account text NOT NULL,
    event_id        text NOT NULL,
    kind            smallint NOT NULL,
    provider_status text,
    provider_object text,
    reference       text,
    error_code      text,
    decline_class   smallint NOT NULL DEFAULT 0,
    amount          bigint,
    currency        text,
    handed_out      boolean NOT NULL DEFAULT false,
    object_payable  boolean NOT NULL DEFAULT false,
    observed_at     timestamptz,
    digest          bytea NOT NULL,
    excerpt         text NOT NULL,
    received_at     timestamptz NOT NULL DEFAULT now(),
    payment_id      uuid,           -- whom it was matched to
    processed_at    timestamptz,    -- NULL: waiting, or parked because nothing matches yet
    looks           int NOT NULL DEFAULT 0, -- how often recover looked for whom it is about
    look_at         timestamptz NOT NULL DEFAULT now() + interval '10 seconds', -- when recover looks by itself
    CONSTRAINT webhook_inbox_event_key UNIQUE (channel_account, event_id)
);
CREATE INDEX webhook_inbox_waiting ON oncepay.webhook_inbox (look_at, id) WHERE processed_at IS NULL;

CREATE TABLE oncepay.routing_decision (
    id              uuid NOT NULL,
    payment_id      uuid NOT NULL,
    follows         int NOT NULL,   -- the ordinal that this decision follows; 0 for the first
    channel_account text,           -- NULL: no route
    attempt_id      uuid,
    routing_version text NOT NULL,
    reasons         jsonb NOT NULL, -- per candidate: taken, or why not
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT routing_decision_pk PRIMARY KEY (payment_id, follows)
);

CREATE TABLE oncepay.stray_fact (
    id              uuid PRIMARY KEY,
    payment_id      uuid NOT NULL,
    attempt_id      uuid NOT NULL,
    kind            smallint NOT NULL, -- enum stray_kind
    channel_account text NOT NULL,
    provider_object text NOT NULL,
    amount          bigint,
    currency        text,
    evidence_id     uuid NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stray_fact_object_key UNIQUE (channel_account, provider_object, kind)
);
CREATE INDEX stray_fact_payment ON oncepay.stray_fact (payment_id);

CREATE TABLE oncepay.manual_case (
    id              uuid PRIMARY KEY,
    kind            smallint NOT NULL, -- enum case_kind
    payment_id      uuid,
    attempt_id      uuid,
    stage           text,              -- stuck work: which stage …
    channel_account text,              -- … and account
    priority        smallint NOT NULL, -- 1 highest
    reason          text NOT NULL,
    status          smallint NOT NULL DEFAULT 10 CHECK (status IN (10, 50)), -- open, closed
    version         int NOT NULL DEFAULT 1,
    opened_at       timestamptz NOT NULL DEFAULT now(),
    closed_at       timestamptz,
    close_reason    text,
    CHECK ((status = 50) = (closed_at IS NOT NULL)),
    CONSTRAINT manual_case_attempt_key UNIQUE (attempt_id, kind)
);
CREATE INDEX manual_case_open ON oncepay.manual_case (opened_at, id) WHERE status = 10;
CREATE INDEX manual_case_payment ON oncepay.manual_case (payment_id) WHERE payment_id IS NOT NULL;
CREATE UNIQUE INDEX manual_case_stuck ON oncepay.manual_case (kind, stage, coalesce(channel_account, ''))
    WHERE status = 10 AND attempt_id IS NULL;

-- Partitions: by calendar month of the UUIDv7 time, the outbox by day. The default partitions are a
-- net for a clock that runs ahead; `oncepay verify` reports rows in them.
CREATE FUNCTION oncepay.uuid_floor(at timestamptz) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION oncepay.make_partitions(ahead interval DEFAULT '7 days') RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    part   record;
    made   int := 0;
    lower_ timestamptz;
    upper_ timestamptz;
    name_  text;
BEGIN
    FOR part IN VALUES ('attempt_request', 'month'), ('evidence', 'month'), ('state_history', 'month'),
                       ('outbox', 'day')
    LOOP
        lower_ := date_trunc(part.column2, now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
        WHILE lower_ <= now() + ahead LOOP
            upper_ := ((lower_ AT TIME ZONE 'UTC') + ('1 ' || part.column2)::interval) AT TIME ZONE 'UTC';
            name_ := part.column1 || '_' || to_char(lower_ AT TIME ZONE 'UTC',
                                                    CASE part.column2 WHEN 'day' THEN 'YYYYMMDD' ELSE 'YYYYMM' END);
            IF to_regclass('oncepay.' || name_) IS NULL THEN
                EXECUTE format('CREATE TABLE oncepay.%I PARTITION OF oncepay.%I FOR VALUES FROM (%L) TO (%L)',
                               name_, part.column1, oncepay.uuid_floor(lower_), oncepay.uuid_floor(upper_));
                IF to_regproc('oncepay.refuse_change') IS NOT NULL THEN -- 0002 does it for those made before
                    EXECUTE format('CREATE TRIGGER never_truncated BEFORE TRUNCATE ON oncepay.%I
                                    FOR EACH STATEMENT EXECUTE FUNCTION oncepay.refuse_change()', name_);
                END IF;
                made := made + 1;
            END IF;
            lower_ := upper_;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

CREATE TABLE oncepay.attempt_request_default PARTITION OF oncepay.attempt_request DEFAULT;
CREATE TABLE oncepay.evidence_default PARTITION OF oncepay.evidence DEFAULT;
CREATE TABLE oncepay.state_history_default PARTITION OF oncepay.state_history DEFAULT;
CREATE TABLE oncepay.outbox_default PARTITION OF oncepay.outbox DEFAULT;
SELECT oncepay.make_partitions();
