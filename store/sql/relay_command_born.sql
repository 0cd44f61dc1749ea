-- When the command was written that opens a message. $1 outbox id, $2 subject, $3 how far apart the clocks of worker
-- and database may be in ms: the id has the one's time, the row the other's.
-- -> created_at; no row: none of ours, or the clocks are further apart.
SELECT o.created_at
  FROM oncepay.outbox o
 WHERE o.kind = 1 AND o.subject = $2::text AND o.id = $1::uuid
   AND o.created_at BETWEEN oncepay.uuid_time($1::uuid) - $3::int8 * interval '1 millisecond'
                        AND oncepay.uuid_time($1::uuid) + $3::int8 * interval '1 millisecond'
