-- A look at what is due, without locks: Redis leases are taken on it first. $1 account; $2 how many.
-- -> task, attempt; oldest first.
SELECT id, attempt_id FROM oncepay.recovery_task
 WHERE channel_account = $1::text AND status IN (10, 20, 40) AND due_at <= now()
 ORDER BY due_at, id
 LIMIT $2::int4
