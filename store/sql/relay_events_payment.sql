-- All events of one payment, found by the transactions that wrote its history. $1 payment.
-- -> xid, id, payment, version, created_at, subject, headers, body.
WITH t AS MATERIALIZED (
    SELECT DISTINCT h.xmin::text::int8 AS low FROM oncepay.state_history h WHERE h.payment_id = $1::uuid),
c AS MATERIALIZED (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS ahead)
SELECT o.xid, o.id, o.payment_id, o.version, o.created_at, o.subject, o.headers, o.body
  FROM t CROSS JOIN c
 CROSS JOIN LATERAL (
        -- The row knows the low half of the number: the last such number before now.
        SELECT f.* FROM oncepay.outbox f
         WHERE f.kind = 2 AND f.payment_id = $1::uuid
           AND f.xid = ((((c.ahead >> 32) << 32) + t.low
                         - CASE WHEN t.low < (c.ahead & 4294967295) OR c.ahead < 4294967296 THEN 0
                                ELSE 4294967296 END)::text)::xid8
         LIMIT 1000) o -- beyond any payment; keeps it a look-up by xid
 ORDER BY o.version, o.xid, o.id
