-- How the newest payments stand: a bounded look from the end of the primary key, because no index knows a status.
-- $1 how far back in ms, $2 at most so many. -> status, count
SELECT r.status, count(*)
  FROM (SELECT p.status FROM oncepay.payment p
         WHERE p.id >= oncepay.uuid_floor(now() - $1::int8 * interval '1 millisecond')
         ORDER BY p.id DESC LIMIT $2::int4) r
 GROUP BY r.status
 ORDER BY r.status
