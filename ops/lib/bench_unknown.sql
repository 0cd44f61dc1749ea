-- ops/lib/bench_unknown.sql: what became of the payments since a moment, for ops/lib/bench.py: how many
-- were UNKNOWN, how long they were, and how long those took that never were.
WITH p AS MATERIALIZED (
    SELECT id, created_at FROM oncepay.payment WHERE created_at > :since::timestamptz),
unknown AS MATERIALIZED (
    SELECT h.payment_id, min(h.at) AS at FROM oncepay.state_history h
     WHERE h.entity = 2 AND h.to_status = 40 AND h.payment_id IN (SELECT id FROM p) GROUP BY 1),
ended AS MATERIALIZED (
    SELECT h.payment_id, min(h.at) AS at FROM oncepay.state_history h
     WHERE h.entity = 1 AND h.to_status >= 50 AND h.payment_id IN (SELECT id FROM p) GROUP BY 1),
waits AS (
    SELECT extract(epoch FROM e.at - u.at) AS seconds, e.at FROM unknown u JOIN ended e USING (payment_id)),
others AS (
    SELECT extract(epoch FROM e.at - p.created_at) * 1000 AS ms
      FROM p JOIN ended e ON e.payment_id = p.id
     WHERE p.id NOT IN (SELECT payment_id FROM unknown))
SELECT json_build_object(
    'payments', (SELECT count(*) FROM p),
    'unknown', (SELECT count(*) FROM unknown),
    'still_unknown', (SELECT count(*) FROM unknown u LEFT JOIN ended e USING (payment_id) WHERE e.at IS NULL),
    'unknown_p50_s', (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM waits),
    'unknown_p99_s', (SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) FROM waits),
    'recovered_per_s', (SELECT count(*) / nullif(extract(epoch FROM max(at) - min(at)), 0) FROM waits),
    'others_p50_ms', (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) FROM others),
    'others_p99_ms', (SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) FROM others))
