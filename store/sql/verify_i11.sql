-- I11: the bounds of protocol F. Facts from outside are never refused, so what a stray fact
-- explains is no offence. Result as in verify_i01.sql.
WITH bad AS (
    SELECT p.id, format('captured %s and requested %s of %s authorised (and %s beyond)', p.captured,
                        p.capture_requested, p.authorised, p.overcapture) AS what
      FROM oncepay.payment p WHERE p.captured + p.capture_requested > p.authorised + p.overcapture
    UNION ALL
    SELECT p.id, format('refunded %s, requested %s and disputed %s of %s captured', p.refunded,
                        p.refund_requested, p.disputed, p.captured)
      FROM oncepay.payment p WHERE p.refunded + p.refund_requested + p.disputed > p.captured
    UNION ALL
    SELECT p.id, format('authorised %s of %s', p.authorised, p.amount)
      FROM oncepay.payment p WHERE p.authorised > coalesce(p.amount, 0))
SELECT count(*) OVER (), b.id::text, b.what
  FROM bad b
 WHERE NOT EXISTS (SELECT FROM oncepay.stray_fact f WHERE f.payment_id = b.id AND f.kind >= 3)
 ORDER BY b.id LIMIT 20
