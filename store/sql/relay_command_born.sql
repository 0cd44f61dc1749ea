-- When the command was written that opens a message. $1 outbox id, $2 subject, $3 how far apart the clocks of worker
-- and database may be in ms: the id has the one's time, the row the other's. They are close as a rule, and what the
-- index offers are all commands of that time on the subject, so it is asked for a short time first.
-- -> created_at; no row: none of ours, or the clocks are further apart.
SELECT o.created_at
  FROM (SELECT * FROM (VALUES (1, 2000), (2, 60000), (3, $3::int8)) AS v (place, apart_ms) ORDER BY v.place) AS span
 CROSS JOIN LATERAL (
        SELECT f.created_at
          FROM oncepay.outbox f
         WHERE f.kind = 1 AND f.subject = $2::text AND f.id = $1::uuid
           AND f.created_at BETWEEN oncepay.uuid_time($1::uuid) - span.apart_ms * interval '1 millisecond'
                                AND oncepay.uuid_time($1::uuid) + span.apart_ms * interval '1 millisecond'
         LIMIT 1) o
 ORDER BY span.place LIMIT 1
