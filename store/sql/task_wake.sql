-- A hint came (webhook, return page): waiting tasks of these attempts are due now. $1 attempts.
UPDATE oncepay.recovery_task t SET due_at = now(), version = t.version + 1
 WHERE t.attempt_id = ANY ($1::uuid[]) AND t.status IN (10, 40) AND t.due_at > now() AND t.due_at < 'infinity'
