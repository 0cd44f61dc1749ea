-- I19: what follows a create goes to the account of a create of its payment. Result as in
-- verify_i01.sql.
WITH bad AS (
    SELECT a.id, format('operation %s went to %s, where its payment has no create', a.operation,
                        a.channel_account) AS what
      FROM oncepay.payment_attempt a
     WHERE a.operation <> 1
       AND NOT EXISTS (SELECT FROM oncepay.payment_attempt c
                        WHERE c.payment_id = a.payment_id AND c.operation = 1
                          AND c.channel_account = a.channel_account))
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
