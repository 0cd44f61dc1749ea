-- I12: amount, currency, merchant, account, key and hash never change: what is written twice is
-- still the same. Result as in verify_i01.sql.
WITH bad AS (
    SELECT a.id::text AS id,
           format('it asks for %s %s, its payment for %s %s', a.amount, a.currency,
                  coalesce(p.amount::text, 'nothing'), p.currency) AS what
      FROM oncepay.payment_attempt a
      LEFT JOIN oncepay.payment p ON p.id = a.payment_id
     WHERE a.operation = 1
       AND (a.amount IS DISTINCT FROM p.amount OR a.currency IS DISTINCT FROM p.currency)
    UNION ALL
    SELECT o.attempt_id::text, format('object %s is noted for account %s', o.object,
                                      o.channel_account)
      FROM oncepay.provider_object o
      LEFT JOIN oncepay.payment_attempt a
             ON a.id = o.attempt_id AND a.payment_id = o.payment_id
            AND a.channel_account = o.channel_account
     WHERE a.id IS NULL
    UNION ALL
    SELECT k.payment_id::text, format('a key of merchant %s names it', k.merchant)
      FROM oncepay.idempotency_key k
      JOIN oncepay.payment p ON p.id = k.payment_id
     WHERE p.merchant <> k.merchant)
SELECT count(*) OVER (), b.id, b.what FROM bad b ORDER BY b.id LIMIT 20
