-- Counts one more trial of a message that is handled alone (protocol H6), committed before the trial.
-- $1 consumer, $2 message. -> one row: trials so far, this one included.
INSERT INTO oncepay.delivery_trial AS t (consumer, message)
VALUES ($1::text, $2::text)
ON CONFLICT (consumer, message) DO UPDATE SET trials = t.trials + 1, updated_at = now()
RETURNING t.trials
