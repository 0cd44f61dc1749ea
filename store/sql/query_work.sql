-- What waits, from small tables. -> one row: tasks due, tasks open, webhooks waiting, stuck commands, dead letters of
-- the last day that were not replayed, now
SELECT (SELECT count(*) FROM oncepay.recovery_task t WHERE t.status IN (10, 20, 40) AND t.due_at <= now()),
       (SELECT count(*) FROM oncepay.recovery_task t WHERE t.status <> 50),
       (SELECT count(*) FROM oncepay.webhook_inbox i WHERE i.processed_at IS NULL),
       (SELECT count(*) FROM oncepay.stuck_command),
       (SELECT count(*) FROM oncepay.dead_letter d
         WHERE d.created_at >= now() - interval '1 day' AND d.replayed_at IS NULL),
       now()
