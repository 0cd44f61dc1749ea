-- Events of payments with lower versions than these, whose transactions have higher numbers: a payment's history
-- tells (by its rows' xmin) which transaction wrote each of its versions. $1 payments, $2 versions,
-- The limits are beyond any payment; they keep every look-up a look-up, whatever a plan was made on.
-- $3 xid and $6 id after which, $4 snapshot that shows them, $5 lowest id (prunes partitions; ids of before 2026 are no times).
-- -> xid, id, payment, version, created_at, subject, headers, body.
SELECT o.xid, o.id, o.payment_id, o.version, o.created_at, o.subject, o.headers, o.body
  FROM unnest($1::uuid[], $2::int4[]) AS d(payment_id, version)
 CROSS JOIN LATERAL (
        -- The row knows the low half of the number: the first such number from $3 on.
        SELECT DISTINCT (($3::int8 >> 32) << 32) + w.low + CASE WHEN w.low >= ($3::int8 & 4294967295) THEN 0
                                                                ELSE 4294967296 END AS xid
          FROM (SELECT h.xmin::text::int8 AS low FROM oncepay.state_history h
                 WHERE h.payment_id = d.payment_id AND h.entity = 1 AND h.id = d.payment_id
                   AND h.version < d.version LIMIT 1000) w) t
 CROSS JOIN LATERAL (
        SELECT f.* FROM oncepay.outbox f
         WHERE f.kind = 2 AND f.xid = t.xid::text::xid8 AND (f.id >= $5::uuid OR f.id < '019b76da-a800-0000-0000-000000000000'::uuid)
           AND (f.xid, f.id) > ($3::int8::text::xid8, $6::uuid)
           AND f.payment_id = d.payment_id AND f.version > 0 AND f.version < d.version
           AND pg_visible_in_snapshot(f.xid, $4::text::pg_snapshot)
         LIMIT 1000) o
 WHERE t.xid < pg_snapshot_xmax($4::text::pg_snapshot)::text::int8
