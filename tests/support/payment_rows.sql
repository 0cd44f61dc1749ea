-- Payments and attempts in any state, made through the guards: every transition with its history,
-- every end with its evidence. Functions of schema test, for store tests only.
CREATE SCHEMA test;

CREATE FUNCTION test.id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
            || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid
$$;

-- A payment in CREATED. target NULL: kind none.
CREATE FUNCTION test.pay(out_no text, target text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    p    uuid := test.id();
    zero bytea := decode(repeat('00', 32), 'hex');
    link bytea := oncepay.history_link(zero, 1::int2, p, 1, 0::int2, 10::int2, 'accepted',
                                       'new_request', 'test', NULL, now());
BEGIN
    INSERT INTO oncepay.merchant (id) VALUES ('m-1001') ON CONFLICT DO NOTHING;
    WITH made AS (
        INSERT INTO oncepay.active_payment AS t (merchant, target_kind, target_id, payment_id,
                                                 version)
        SELECT 'm-1001', 'order', target, p, 1 WHERE target IS NOT NULL
            ON CONFLICT (merchant, target_kind, target_id)
            DO UPDATE SET payment_id = excluded.payment_id, version = t.version + 1),
    history AS (
        INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status,
                                           event, why, actor, prev_hash)
        VALUES (p, 1, p, 1, 0, 10, 'accepted', 'new_request', 'test', zero))
    INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, target_id, amount,
                                 currency, method_type, method_token, status, version, certainty,
                                 start_by, traceparent, history_hash)
    VALUES (p, 'm-1001', out_no, CASE WHEN target IS NULL THEN 'none' ELSE 'order' END, target,
            1099, 'EUR', 'card', 'tok', 10, 1, 0, now() + interval '15 minutes',
            '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', link);
    RETURN p;
END $$;

CREATE FUNCTION test.move_payment(p uuid, to_ int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    o    oncepay.payment;
    link bytea;
BEGIN
    SELECT * INTO STRICT o FROM oncepay.payment WHERE id = p;
    link := oncepay.history_link(o.history_hash, 1::int2, p, o.version + 1, o.status, to_::int2,
                                 'test', 'test', 'test', NULL, now());
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status,
                                       event, why, actor, prev_hash)
    VALUES (p, 1, p, o.version + 1, o.status, to_, 'test', 'test', 'test', o.history_hash);
    UPDATE oncepay.payment
       SET status = to_, version = version + 1, history_hash = link
     WHERE id = p;
END $$;

-- The next create attempt, in CREATED; its payment goes to AUTHORIZING unless it is past that.
CREATE FUNCTION test.attempt(p uuid) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    a      uuid := test.id();
    n      int;
    status int;
    head   bytea;
    link   bytea;
BEGIN
    SELECT count(*) + 1 INTO n FROM oncepay.payment_attempt WHERE payment_id = p;
    SELECT f.status INTO STRICT status FROM oncepay.payment f WHERE f.id = p;
    IF status IN (10, 20) THEN
        PERFORM test.move_payment(p, 20);
    END IF;
    SELECT history_hash INTO STRICT head FROM oncepay.payment WHERE id = p;
    link := oncepay.history_link(head, 2::int2, a, 1, 0::int2, 10::int2, 'routed', 'first', 'test',
                                 NULL, now());
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status,
                                       event, why, actor, prev_hash)
    VALUES (p, 2, a, 1, 0, 10, 'routed', 'first', 'test', head);
    INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal,
                                         channel_account, method_type, amount, currency,
                                         provider_key, request_hash, request_bytes, status,
                                         certainty, guard_decision, version, history_hash)
    SELECT a, p, 1, 1, n, 'stripe-main', 'card', amount, currency, 'key-' || a,
           sha256('request'::bytea), 'request', 10, 2, CASE WHEN n > 1 THEN 'allowed' END, 1, link
      FROM oncepay.payment WHERE id = p;
    RETURN a;
END $$;

CREATE FUNCTION test.move_attempt(a uuid, to_ int, certainty_ int, evidence_ uuid, error text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    o    oncepay.payment_attempt;
    link bytea;
BEGIN
    SELECT * INTO STRICT o FROM oncepay.payment_attempt WHERE id = a;
    link := oncepay.history_link(o.history_hash, 2::int2, a, o.version + 1, o.status, to_::int2,
                                 'test', 'test', 'test', evidence_, now());
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status,
                                       event, why, actor, evidence_id, prev_hash)
    VALUES (o.payment_id, 2, a, o.version + 1, o.status, to_, 'test', 'test', 'test', evidence_,
            o.history_hash);
    UPDATE oncepay.payment_attempt
       SET status = to_, version = version + 1, certainty = certainty_,
           error_code = coalesce(error, error_code), evidence_id = coalesce(evidence_, evidence_id),
           first_sent_at = CASE WHEN to_ = 20 THEN coalesce(first_sent_at, now())
                                ELSE first_sent_at END,
           history_hash = link
     WHERE id = a;
END $$;

-- The fence: SENDING, with a request that had to be handed over age ago.
CREATE FUNCTION test.send(a uuid, age interval DEFAULT '10 seconds') RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    r uuid := test.id();
BEGIN
    PERFORM test.move_attempt(a, 20, 1, NULL, NULL);
    INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind, send_by, worker)
    SELECT payment_id, r, a, 1, now() - age, 'test' FROM oncepay.payment_attempt WHERE id = a;
    RETURN r;
END $$;

-- An observation; proves 0: nothing. One from transport or answer closes the newest request.
CREATE FUNCTION test.observe(a uuid, source_ int, proves_ int, closure_ int, object_ text)
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    e uuid := test.id();
    r uuid;
BEGIN
    SELECT q.id INTO r
      FROM oncepay.payment_attempt o
      JOIN oncepay.attempt_request q ON q.payment_id = o.payment_id AND q.attempt_id = o.id
     WHERE o.id = a AND source_ IN (2, 3, 4)
     ORDER BY q.id DESC LIMIT 1;
    INSERT INTO oncepay.evidence (payment_id, id, attempt_id, request_id, source, kind, phase,
                                  provider_object, amount, currency, strength, proves, closure,
                                  digest, excerpt)
    SELECT o.payment_id, e, a, r, source_, 1, CASE WHEN source_ < 3 THEN 1 ELSE 5 END, object_,
           o.amount, o.currency, 50, nullif(proves_, 0), closure_, sha256(e::text::bytea), '{}'
      FROM oncepay.payment_attempt o WHERE o.id = a;
    RETURN e;
END $$;

-- News of an attempt with the evidence that proves it.
CREATE FUNCTION test.news(a uuid, to_ int, source_ int, error text, closure_ int, object_ text)
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    proof int := CASE WHEN to_ = 50 THEN 5 WHEN to_ = 60 AND source_ = 1 THEN 2 WHEN to_ = 60 THEN 3
                      WHEN to_ = 30 THEN 4 ELSE 0 END;
    e     uuid := test.observe(a, source_, proof, closure_, object_);
BEGIN
    PERFORM test.move_attempt(a, to_, greatest(proof, 1), e, error);
    UPDATE oncepay.recovery_task SET status = 50, version = version + 1
     WHERE attempt_id = a AND status <> 50 AND to_ >= 50;
    RETURN e;
END $$;
