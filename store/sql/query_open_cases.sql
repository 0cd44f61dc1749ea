-- Open cases by kind. -> kind, how many, age of the oldest in us
SELECT c.kind, count(*), (extract(epoch FROM now() - min(c.opened_at)) * 1000000)::int8
  FROM oncepay.manual_case c
 WHERE c.status = 10
 GROUP BY c.kind
 ORDER BY min(c.priority), c.kind
