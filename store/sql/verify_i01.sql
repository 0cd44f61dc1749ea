-- I1: every live payment is what its target's pointer names, and the reverse (`none` has none).
-- Like every verify_*.sql: -> how many offend (the same in each row), id, what is wrong; 20 rows.
WITH bad AS (
    SELECT p.id, format('the pointer of its target names %s',
                        coalesce('payment ' || t.payment_id, 'nothing')) AS what
      FROM oncepay.payment p
      LEFT JOIN oncepay.active_payment t
             ON t.merchant = p.merchant AND t.target_kind = p.target_kind
            AND t.target_id = p.target_id
     WHERE p.target_id IS NOT NULL AND p.status NOT IN (70, 80, 90, 95)
       AND t.payment_id IS DISTINCT FROM p.id
    UNION ALL
    SELECT t.payment_id, format('it is not of target %s %s of %s, whose pointer names it',
                                t.target_kind, t.target_id, t.merchant)
      FROM oncepay.active_payment t
      LEFT JOIN oncepay.payment p
             ON p.id = t.payment_id AND p.merchant = t.merchant AND p.target_kind = t.target_kind
            AND p.target_id = t.target_id
     WHERE p.id IS NULL)
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
