-- I4: attempt n + 1 of an operation exists only if n is FAILED with proof, with the guard's
-- decision stored. Result as in verify_i01.sql.
WITH bad AS (
    SELECT a.id, format('attempt %s of its operation without proof that attempt %s failed',
                        a.ordinal, a.ordinal - 1) AS what
      FROM oncepay.payment_attempt a
      LEFT JOIN oncepay.payment_attempt b
             ON b.payment_id = a.payment_id AND b.operation = a.operation AND b.number = a.number
            AND b.ordinal = a.ordinal - 1
     WHERE a.ordinal > 1 AND (b.status IS DISTINCT FROM 60 OR b.certainty NOT IN (2, 3))
    UNION ALL
    SELECT a.id, 'a further attempt without the guard''s decision'
      FROM oncepay.payment_attempt a WHERE a.ordinal > 1 AND a.guard_decision IS NULL)
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
