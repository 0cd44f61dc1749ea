-- I3: a provider key is one attempt's at its account; what an attempt sends at one step has one
-- hash, and that hash is of the stored bytes. Result as in verify_i01.sql.
WITH bad AS (
    SELECT min(a.id::text) AS id,
           format('%s attempts at %s share one provider key', count(*), a.channel_account) AS what
      FROM oncepay.payment_attempt a GROUP BY a.channel_account, a.provider_key HAVING count(*) > 1
    UNION ALL
    SELECT a.id::text, 'its request hash is not that of its request bytes'
      FROM oncepay.payment_attempt a WHERE a.request_hash <> sha256(a.request_bytes)
    UNION ALL
    SELECT s.attempt_id::text, format('the hash of step %s is not that of its bytes', s.step)
      FROM oncepay.attempt_step s WHERE s.request_hash <> sha256(s.request_bytes))
SELECT count(*) OVER (), b.id, b.what FROM bad b ORDER BY b.id LIMIT 20
