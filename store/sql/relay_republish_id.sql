-- Where republishing begins after the last event that a stream still holds: as many events before it as may have
-- been in hand at once. $1 outbox id, $2 how many before. -> xid; no row: no such event.
SELECT coalesce(b.xid, e.xid)
  FROM oncepay.first_events($1::uuid, $1::uuid, 1) e
  LEFT JOIN LATERAL (
        SELECT w.xid FROM (
            SELECT o.xid, o.id FROM oncepay.outbox o
             WHERE o.kind = 2 AND (o.xid, o.id) < (e.xid, e.id)
             ORDER BY o.xid DESC, o.id DESC LIMIT $2::int4) w
         ORDER BY w.xid, w.id LIMIT 1) b ON true
