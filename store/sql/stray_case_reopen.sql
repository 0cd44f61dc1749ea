-- A further stray fact of an attempt whose case was closed: a person has to look again.
-- $1 attempt, $2 reason.
UPDATE oncepay.manual_case c
   SET status = 10, version = c.version + 1, opened_at = now(), closed_at = NULL,
       close_reason = NULL, reason = $2::text
 WHERE c.attempt_id = $1::uuid AND c.kind = 3 AND c.status = 50
