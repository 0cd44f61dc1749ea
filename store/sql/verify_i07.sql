-- I7: history, evidence, outbox, requests and stray facts only grow. The chains are computed again,
-- link by link: a payment's from 32 zero bytes, an attempt's or operation's from a head that its
-- payment had (that the last link gives the head in the row is I8's); and the guards that refuse changes stand and are switched on, on every partition.
-- Result as in verify_i01.sql.
WITH guards (relation, trigger) AS (
    SELECT r, 'append_only'
      FROM unnest(ARRAY['state_history', 'evidence', 'outbox', 'attempt_request', 'stray_fact',
                        'attempt_step', 'provider_object']) AS r
    UNION ALL
    SELECT r, 'never_deleted'
      FROM unnest(ARRAY['payment', 'payment_operation', 'payment_attempt', 'active_payment',
                        'manual_case']) AS r
    UNION ALL
    SELECT r, 'never_truncated'
      FROM unnest(ARRAY['state_history', 'evidence', 'outbox', 'attempt_request', 'stray_fact',
                        'payment', 'payment_operation', 'payment_attempt', 'active_payment',
                        'manual_case', 'idempotency_key', 'webhook_inbox']) AS r),
linked AS MATERIALIZED (
    SELECT h.payment_id, h.entity, h.id, h.version, h.prev_hash,
           oncepay.history_link(h.prev_hash, h.entity, h.id, h.version, h.from_status, h.to_status,
                                h.event, h.why, h.actor, h.evidence_id, h.at) AS hash
      FROM oncepay.state_history h),
chained AS (
    SELECT h.*, lag(h.hash) OVER (PARTITION BY h.payment_id, h.entity, h.id ORDER BY h.version) AS before
      FROM linked h),
bad AS (
    SELECT c.id::text AS id,
           format('entity %s, version %s: it does not follow from the history row before it',
                  c.entity, c.version) AS what
      FROM chained c
     WHERE CASE WHEN c.version > 1 THEN c.prev_hash IS DISTINCT FROM c.before
                WHEN c.entity = 1 THEN c.prev_hash <> decode(repeat('00', 32), 'hex')
                ELSE false END
    UNION ALL
    SELECT c.id::text, format('entity %s: its chain does not begin at a head of its payment''s',
                              c.entity)
      FROM chained c
      LEFT JOIN linked p
             ON p.payment_id = c.payment_id AND p.entity = 1 AND p.id = c.payment_id
            AND p.hash = c.prev_hash
     WHERE c.version = 1 AND c.entity <> 1 AND p.id IS NULL
    UNION ALL
    SELECT g.relation || '.' || g.trigger, 'this guard is missing or switched off'
      FROM guards g
      LEFT JOIN pg_trigger t
             ON t.tgrelid = to_regclass('oncepay.' || g.relation) AND t.tgname = g.trigger
     WHERE t.tgenabled IS DISTINCT FROM 'O'
    UNION ALL
    SELECT format('%s.%s', t.tgrelid::regclass, t.tgname), 'this guard is switched off'
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'oncepay'::regnamespace AND c.relispartition
       AND NOT t.tgisinternal AND t.tgenabled <> 'O')
SELECT count(*) OVER (), b.id, b.what FROM bad b ORDER BY b.id LIMIT 20
