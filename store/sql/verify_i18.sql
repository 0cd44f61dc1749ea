-- I18: a final payment has no open create; a captured one has a successful create; an open create
-- has its payment in AUTHORIZING or CANCELING. Evidence for something that we have no record of
-- sending opens one by itself, with a case. Result as in verify_i01.sql.
WITH states (code, name) AS (VALUES
    (10, 'CREATED'), (20, 'AUTHORIZING'), (25, 'CANCELING'), (30, 'AUTHORIZED'), (35, 'VOIDING'),
    (40, 'CAPTURING'), (50, 'CAPTURED'), (60, 'REFUNDING'), (70, 'REFUNDED'), (80, 'REVERSED'),
    (90, 'FAILED'), (95, 'CANCELED')),
bad AS (
    SELECT a.payment_id AS id,
           format('it is %s and its create %s is open', coalesce(s.name, 'not there'), a.id) AS what
      FROM oncepay.payment_attempt a
      LEFT JOIN oncepay.payment p ON p.id = a.payment_id
      LEFT JOIN states s ON s.code = p.status
     WHERE a.operation = 1 AND a.status < 50 AND (p.status IS NULL OR p.status NOT IN (20, 25))
       AND NOT EXISTS (SELECT FROM oncepay.manual_case c WHERE c.attempt_id = a.id AND c.kind = 9)
    UNION ALL
    SELECT p.id, format('it is %s and no create of it succeeded', s.name)
      FROM oncepay.payment p
      JOIN states s ON s.code = p.status
     WHERE p.status IN (30, 35, 40, 50, 60, 70, 80)
       AND NOT EXISTS (SELECT FROM oncepay.payment_attempt a
                        WHERE a.payment_id = p.id AND a.operation = 1 AND a.status = 50))
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
