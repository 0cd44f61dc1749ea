-- I2: one payment per (merchant, out_trade_no), one operation per (payment, kind, out no). Counted
-- from the rows, so that an index that lies is seen. Result as in verify_i01.sql.
WITH bad AS (
    SELECT min(p.id::text) AS id,
           format('%s payments of %s have out_trade_no %s', count(*), p.merchant, p.out_trade_no)
               AS what
      FROM oncepay.payment p GROUP BY p.merchant, p.out_trade_no HAVING count(*) > 1
    UNION ALL
    SELECT o.payment_id::text, format('%s operations of kind %s have number %s', count(*), o.kind,
                                      o.out_no)
      FROM oncepay.payment_operation o GROUP BY o.payment_id, o.kind, o.out_no HAVING count(*) > 1)
SELECT count(*) OVER (), b.id, b.what FROM bad b ORDER BY b.id LIMIT 20
