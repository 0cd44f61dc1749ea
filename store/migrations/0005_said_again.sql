-- 0005: the answer of an acceptance depends on the request and its payment's id only, and a repeat of the
-- request has both: its body is not stored with the key, but said again. Keys from before keep theirs.
ALTER TABLE oncepay.idempotency_key
    ALTER COLUMN answer_body DROP NOT NULL,
    ADD CONSTRAINT idempotency_key_answer
        CHECK (answer_body IS NOT NULL OR (answer_status = 202 AND payment_id IS NOT NULL));
