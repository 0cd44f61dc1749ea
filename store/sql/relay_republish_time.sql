-- Where republishing begins for a time: the earliest transaction among the first events drawn since, looked for in
-- ever longer spans. $1 that time. -> xid; no row: nothing since.
SELECT w.xid
  -- In order before the look-ups: sorted after them, all four would be made.
  FROM (SELECT *
          FROM (VALUES (1, interval '1 minute'), (2, interval '1 hour'), (3, interval '1 day'), (4, NULL))
               AS v (place, width)
         ORDER BY v.place) AS span
 CROSS JOIN LATERAL (
        SELECT f.xid, f.id
          FROM oncepay.first_events(oncepay.uuid_floor($1::timestamptz),
                                    coalesce(oncepay.uuid_floor($1::timestamptz + span.width),
                                             'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid), 1000) f
         ORDER BY f.xid, f.id LIMIT 1) w
 ORDER BY span.place LIMIT 1
