-- 0005: what is known anyway is not written again.
--
-- The answer of an acceptance depends on the request and its payment's id only, and a repeat of the request has
-- both: its body is not stored with the key, but said again. Keys from before keep theirs.
ALTER TABLE oncepay.idempotency_key
    ALTER COLUMN answer_body DROP NOT NULL,
    ADD CONSTRAINT idempotency_key_answer
        CHECK (answer_body IS NOT NULL OR (answer_status = 202 AND payment_id IS NOT NULL));

-- Events are followed by their transactions; commands are looked at by their time.
ALTER TABLE oncepay.outbox
    ALTER COLUMN xid DROP NOT NULL,
    ADD CONSTRAINT outbox_event_xid CHECK (kind = 1 OR xid IS NOT NULL);

-- A key names its attempt, so no two accounts share one either (I3 and more).
ALTER TABLE oncepay.payment_attempt
    DROP CONSTRAINT payment_attempt_provider_key,
    ADD CONSTRAINT payment_attempt_provider_key UNIQUE (provider_key);

COMMENT ON COLUMN oncepay.evidence.reference IS 'whose request it says it is about; =: the attempt''s own; NULL: it does not say';
