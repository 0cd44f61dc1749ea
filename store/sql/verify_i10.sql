-- I10: at most one success per target and per payment, unless a case exists for each further one;
-- one case per (attempt, kind). What was given back in full does not count. Result as in
-- verify_i01.sql.
WITH successes AS (
    SELECT a.id AS attempt_id, a.payment_id, p.merchant,
           coalesce(p.target_kind, 'none') AS target_kind,
           coalesce(p.target_id, p.id::text) AS target,
           EXISTS (SELECT FROM oncepay.manual_case c
                    WHERE c.attempt_id = a.id AND c.kind = 3) AS has_case
      FROM oncepay.payment_attempt a
      JOIN oncepay.payment p ON p.id = a.payment_id
     WHERE a.operation = 1 AND a.status = 50 AND p.status NOT IN (70, 80)),
bad AS (
    SELECT min(s.payment_id::text) AS id,
           format('%s successes of target %s %s of %s have no case', count(*), s.target_kind,
                  s.target, s.merchant) AS what
      FROM successes s WHERE NOT s.has_case
     GROUP BY s.merchant, s.target_kind, s.target HAVING count(*) > 1
    UNION ALL
    SELECT f.payment_id::text, format('stray fact %s has no case', f.id)
      FROM oncepay.stray_fact f
     WHERE NOT EXISTS (SELECT FROM oncepay.manual_case c
                        WHERE c.attempt_id = f.attempt_id AND c.kind = 3)
    UNION ALL
    SELECT min(c.payment_id::text), format('%s cases of kind %s for one attempt', count(*), c.kind)
      FROM oncepay.manual_case c WHERE c.attempt_id IS NOT NULL
     GROUP BY c.attempt_id, c.kind HAVING count(*) > 1)
SELECT count(*) OVER (), b.id, b.what FROM bad b ORDER BY b.id LIMIT 20
