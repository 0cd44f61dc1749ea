-- Payments that wait for a machine for too long: commands that do not move what they name, and fences whose
-- attempts nobody took over. $1 stuck_after in ms. -> entity (1 payment, 2 attempt), state, how many.
SELECT 1::int2, s.state, count(DISTINCT s.payment_id)
  FROM oncepay.stuck_command s
 WHERE s.payment_id IS NOT NULL AND s.since <= now() - $1::int8 * interval '1 millisecond'
 GROUP BY s.state
UNION ALL
SELECT 2::int2, 20::int2, coalesce(sum(cardinality(f.attempts)), 0)::int8
  FROM oncepay.fence_batch f
 WHERE f.due_at <= now() - $1::int8 * interval '1 millisecond'
