-- ops/lib/progress.sql: how far the payments are, for ops/lib/books.py while it waits.
SELECT json_build_object(
    'statuses', (SELECT coalesce(json_object_agg(status, n), '{}')
                 FROM (SELECT status, count(*) AS n FROM oncepay.payment GROUP BY status) s),
    'requests', (SELECT count(*) FROM oncepay.attempt_request),
    'tasks_open', (SELECT count(*) FROM oncepay.recovery_task WHERE status <> 50),
    'fences_open', (SELECT count(*) FROM oncepay.fence_batch));
