-- I21: one open task per attempt; one webhook per (account, event id). Result as in
-- verify_i01.sql.
WITH bad AS (
    SELECT t.attempt_id::text AS id, format('%s open recovery tasks', count(*)) AS what
      FROM oncepay.recovery_task t WHERE t.status <> 50 GROUP BY t.attempt_id HAVING count(*) > 1
    UNION ALL
    SELECT min(w.id::text), format('%s inbox rows of event %s of %s', count(*), w.event_id,
                                   w.channel_account)
      FROM oncepay.webhook_inbox w GROUP BY w.channel_account, w.event_id HAVING count(*) > 1)
SELECT count(*) OVER (), b.id, b.what FROM bad b ORDER BY b.id LIMIT 20
