-- Where republishing begins for a time: the earliest transaction among the first events drawn since.
-- $1 lowest id of that time. -> xid; no row: nothing since.
SELECT w.xid
  FROM (SELECT o.xid, o.id FROM oncepay.outbox o
         WHERE o.id >= $1::uuid AND o.kind = 2 ORDER BY o.id LIMIT 1000) w
 ORDER BY w.xid, w.id LIMIT 1
