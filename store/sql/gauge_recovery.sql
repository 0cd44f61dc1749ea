-- Open recovery tasks by account, method and currency; attempts in UNKNOWN among them.
-- -> account, method, currency, UNKNOWN attempts, sum of their amounts, age of the oldest of them in us (0: none),
-- age of the oldest open task in us.
SELECT t.channel_account, t.method_type, t.currency,
       count(*) FILTER (WHERE a.is_unknown),
       least(coalesce(sum(t.amount) FILTER (WHERE a.is_unknown), 0), 9223372036854775807)::int8,
       coalesce(extract(epoch FROM now() - min(t.first_unknown_at) FILTER (WHERE a.is_unknown)) * 1000000, 0)::int8,
       (extract(epoch FROM now() - min(t.created_at)) * 1000000)::int8
  FROM oncepay.recovery_task t
  LEFT JOIN LATERAL (SELECT p.status = 40 AS is_unknown FROM oncepay.payment_attempt p
                      WHERE t.purpose = 1 AND p.id = t.attempt_id LIMIT 1) a ON true
 WHERE t.status <> 50
 GROUP BY 1, 2, 3
