-- One retrieve of a final attempt whose evidence conflicts (protocol D). $1 task ids; $2 attempts; $3 policy version.
INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id, channel_account, method_type, operation, amount, currency,
                                   purpose, status, due_at, policy_version, version)
SELECT d.task_id, a.payment_id, a.id, a.channel_account, a.method_type, a.operation, a.amount, a.currency, 3, 10, now(),
       $3::text, 1
  FROM unnest($1::uuid[], $2::uuid[]) AS d(task_id, attempt_id)
  JOIN oncepay.payment_attempt a ON a.id = d.attempt_id
    ON CONFLICT (attempt_id) WHERE status <> 50 DO NOTHING
