-- I17: each operation's end is applied once: a payment leaves its wait for the create once, cites
-- one end of an attempt once, and its sums are what was applied. Result as in verify_i01.sql.
WITH states (code, name) AS (VALUES
    (10, 'CREATED'), (20, 'AUTHORIZING'), (25, 'CANCELING'), (30, 'AUTHORIZED'), (35, 'VOIDING'),
    (40, 'CAPTURING'), (50, 'CAPTURED'), (60, 'REFUNDING'), (70, 'REFUNDED'), (80, 'REVERSED'),
    (90, 'FAILED'), (95, 'CANCELED')),
bad AS (
    SELECT h.payment_id AS id, format('it left its wait for the create %s times', count(*)) AS what
      FROM oncepay.state_history h
     WHERE h.entity = 1 AND h.from_status IN (10, 20, 25) AND h.to_status IN (30, 50, 90, 95)
     GROUP BY h.payment_id HAVING count(*) > 1
    UNION ALL
    SELECT h.payment_id, format('evidence %s was applied to it %s times', h.evidence_id, count(*))
      FROM oncepay.state_history h
     WHERE h.entity = 1 AND h.evidence_id IS NOT NULL AND h.event LIKE 'settled.%'
       AND h.from_status <> h.to_status
     GROUP BY h.payment_id, h.evidence_id HAVING count(*) > 1
    UNION ALL
    SELECT p.id, format('captured %s of %s without a capture of its own', p.captured, p.amount)
      FROM oncepay.payment p
     WHERE p.status = 50 AND p.capture_mode = 1
       AND (p.captured <> p.amount OR p.authorised <> p.amount)
       AND NOT EXISTS (SELECT FROM oncepay.payment_operation o WHERE o.payment_id = p.id)
       AND NOT EXISTS (SELECT FROM oncepay.stray_fact f WHERE f.payment_id = p.id)
    UNION ALL
    SELECT p.id, format('%s is captured and it is %s', p.captured, s.name)
      FROM oncepay.payment p
      JOIN states s ON s.code = p.status
     WHERE p.captured <> 0 AND p.status IN (10, 20, 25, 30, 35, 80, 90, 95)
    UNION ALL
    SELECT p.id, 'it remembers news of an attempt that is not its own, or is older than that'
      FROM oncepay.payment p
      LEFT JOIN oncepay.payment_attempt a ON a.id = p.applied_attempt AND a.payment_id = p.id
     WHERE p.applied_attempt IS NOT NULL AND (a.id IS NULL OR a.version < p.applied_version))
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
