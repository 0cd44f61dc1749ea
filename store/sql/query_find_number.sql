-- Payments with this number. $1 out_trade_no, $2 merchant (NULL: any). -> payment, merchant; one row per merchant.
SELECT p.id, m.id
  FROM oncepay.merchant m
  JOIN LATERAL (SELECT f.id FROM oncepay.payment f
                 WHERE f.merchant = m.id AND f.out_trade_no = $1::text LIMIT 1) p ON true
 WHERE $2::text IS NULL OR m.id = $2::text
 ORDER BY m.id
