-- Rows in default partitions: partitions were not made in time, or a clock runs ahead. Result as in
-- verify_i01.sql.
WITH bad AS (
    SELECT 'state_history' AS id, count(*) AS rows FROM oncepay.state_history_default
    UNION ALL SELECT 'evidence', count(*) FROM oncepay.evidence_default
    UNION ALL SELECT 'attempt_request', count(*) FROM oncepay.attempt_request_default
    UNION ALL SELECT 'outbox', count(*) FROM oncepay.outbox_default)
SELECT count(*) OVER (), b.id, format('%s rows lie in its default partition', b.rows)
  FROM bad b WHERE b.rows > 0 ORDER BY b.id LIMIT 20
