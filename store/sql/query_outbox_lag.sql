-- Events that lie behind the relay's saved marks. $1 count at most. -> how many, age of the oldest in us (0: none)
SELECT count(*), coalesce((extract(epoch FROM now() - min(o.created_at)) * 1000000)::int8, 0)
  FROM (SELECT e.created_at
          FROM oncepay.outbox e
         WHERE e.kind = 2
           AND e.xid >= coalesce((SELECT min(p.mark_xid) FROM oncepay.relay_position p WHERE p.name LIKE 'event:%'),
                                 '1'::xid8)
         ORDER BY e.xid LIMIT $1::int4) o
