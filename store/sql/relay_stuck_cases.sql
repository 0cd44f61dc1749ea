-- Opens a case per stage and account whose work has been stuck for long, and closes those whose work moved.
-- $1 case kind, $2 priority, $3 age in ms, $4 ids for new cases. -> opened?, stage, account, how many are stuck.
WITH w AS MATERIALIZED (
    SELECT u.stage, u.channel_account, sum(u.count)::int8 AS count, min(u.since) AS since
      FROM (SELECT s.stage, s.channel_account, 1 AS count, s.since
              FROM oncepay.stuck_command s
             WHERE s.since <= now() - $3::int8 * interval '1 millisecond'
            UNION ALL
            -- Fences that nobody took over: recover's work too.
            SELECT 'recover', f.channel_account, cardinality(f.attempts), f.due_at
              FROM oncepay.fence_batch f
             WHERE f.due_at <= now() - $3::int8 * interval '1 millisecond') u
     GROUP BY 1, 2),
fresh AS MATERIALIZED (
    SELECT w.*, row_number() OVER (ORDER BY w.stage, w.channel_account) AS place
      FROM w
     WHERE NOT EXISTS (SELECT FROM oncepay.manual_case c
                        WHERE c.kind = $1::int2 AND c.status = 10 AND c.attempt_id IS NULL AND c.stage = w.stage
                          AND coalesce(c.channel_account, '') = w.channel_account)),
opened AS (
    INSERT INTO oncepay.manual_case (id, kind, stage, channel_account, priority, reason)
    SELECT i.id, $1::int2, f.stage, nullif(f.channel_account, ''), $2::int2,
           format('%s commands have not moved their work since %s', f.count,
                  to_char(f.since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      FROM fresh f JOIN unnest($4::uuid[]) WITH ORDINALITY AS i(id, place) USING (place)
        ON CONFLICT DO NOTHING
    RETURNING stage, channel_account),
closed AS (
    UPDATE oncepay.manual_case c
       SET status = 50, version = c.version + 1, closed_at = now(), close_reason = 'the work moved'
     WHERE c.kind = $1::int2 AND c.status = 10 AND c.attempt_id IS NULL
       AND NOT EXISTS (SELECT FROM w WHERE w.stage = c.stage AND w.channel_account = coalesce(c.channel_account, ''))
    RETURNING c.stage, c.channel_account)
SELECT true, o.stage, coalesce(o.channel_account, ''), w.count
  FROM opened o JOIN w ON w.stage = o.stage AND w.channel_account = coalesce(o.channel_account, '')
UNION ALL
SELECT false, c.stage, coalesce(c.channel_account, ''), 0::int8 FROM closed c
