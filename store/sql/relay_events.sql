-- One page of the events that a snapshot shows and an earlier one did not, in the order of their transactions.
-- Every row is the snapshot's, also when a page is read later than the snapshot was taken: rows are never changed.
-- $1 earlier snapshot, $2 snapshot (NULL: now's), $3 xid and $4 id after which the page begins (0, nil: the first),
-- $5 rows, $6 lowest id (prunes partitions; ids of before 2026 are no times), $7 session that must be ours.
-- -> snapshot, its xmin, now, is it our session?, and per event: xid, id, payment, version, created_at, subject,
-- headers, body. Without events one row with id NULL.
WITH s AS MATERIALIZED (SELECT coalesce($2::text::pg_snapshot, pg_current_snapshot()) AS snapshot)
SELECT s.snapshot::text, pg_snapshot_xmin(s.snapshot), now(), pg_backend_pid() = $7::int4,
       e.xid, e.id, e.payment_id, e.version, e.created_at, e.subject, e.headers, e.body
  FROM s
  LEFT JOIN LATERAL (
        SELECT u.* FROM (
            -- Transactions that the earlier snapshot saw in progress.
            (SELECT w.*
               FROM pg_snapshot_xip($1::text::pg_snapshot) AS x (xid)
              CROSS JOIN LATERAL (
                    SELECT o.xid, o.id, o.payment_id, o.version, o.created_at, o.subject, o.headers, o.body
                      FROM oncepay.outbox o
                     WHERE o.kind = 2 AND o.xid = x.xid AND (o.xid, o.id) > ($3::int8::text::xid8, $4::uuid)
                       AND (o.id >= $6::uuid OR o.id < '019b76da-a800-0000-0000-000000000000'::uuid)
                     ORDER BY o.xid, o.id LIMIT $5::int4) w
              WHERE pg_visible_in_snapshot(x.xid, s.snapshot))
            UNION ALL
            -- Transactions that began after it. One lower bound, so that the index begins there.
            (SELECT o.xid, o.id, o.payment_id, o.version, o.created_at, o.subject, o.headers, o.body
               FROM oncepay.outbox o
              WHERE o.kind = 2
                AND (o.xid, o.id) > (greatest($3::int8, pg_snapshot_xmax($1::text::pg_snapshot)::text::int8 - 1)
                                         ::text::xid8,
                                     CASE WHEN $3::int8 < pg_snapshot_xmax($1::text::pg_snapshot)::text::int8
                                          THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid ELSE $4::uuid END)
                AND o.xid < pg_snapshot_xmax(s.snapshot) AND (o.id >= $6::uuid OR o.id < '019b76da-a800-0000-0000-000000000000'::uuid)
                AND pg_visible_in_snapshot(o.xid, s.snapshot)
              ORDER BY o.xid, o.id LIMIT $5::int4)
        ) u ORDER BY u.xid, u.id LIMIT $5::int4) e ON true
