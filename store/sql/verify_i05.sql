-- I5: only listed transitions, terminal states frozen (no pair that leaves one is listed), and the
-- guards that refuse the opposite stand and are switched on. Result as in verify_i01.sql.
WITH guards (relation, trigger) AS (VALUES
    ('payment', 'payment_guard_insert'), ('payment', 'payment_guard_update'),
    ('active_payment', 'pointer_guard_insert'), ('active_payment', 'pointer_guard_update'),
    ('payment_operation', 'operation_guard_insert'),
    ('payment_operation', 'operation_guard_update'),
    ('payment_attempt', 'attempt_guard_insert'), ('payment_attempt', 'attempt_guard_update'),
    ('recovery_task', 'task_guard_update')),
bad AS (
    SELECT h.id::text AS id, format('entity %s, version %s: %s to %s is no listed transition',
                                    h.entity, h.version, h.from_status, h.to_status) AS what
      FROM oncepay.state_history h
      LEFT JOIN oncepay.state_transition t
             ON t.entity = h.entity AND t.from_status = h.from_status AND t.to_status = h.to_status
     WHERE t.entity IS NULL
    UNION ALL
    SELECT g.relation || '.' || g.trigger, 'this guard is missing or switched off'
      FROM guards g
      LEFT JOIN pg_trigger t
             ON t.tgrelid = to_regclass('oncepay.' || g.relation) AND t.tgname = g.trigger
     WHERE t.tgenabled IS DISTINCT FROM 'O')
SELECT count(*) OVER (), b.id, b.what FROM bad b ORDER BY b.id LIMIT 20
