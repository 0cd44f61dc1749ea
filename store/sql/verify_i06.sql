-- I6: FAILED and SUCCEEDED cite evidence of this attempt that proves exactly that; our own word
-- proves only that nothing happened, only from CREATED, and only with every request closed as
-- unsent. Result as in verify_i01.sql.
WITH ended AS (
    SELECT a.id, a.payment_id, a.status, a.certainty, a.version, e.id AS evidence_id, e.attempt_id,
           e.proves, e.source
      FROM oncepay.payment_attempt a
      LEFT JOIN oncepay.evidence e ON e.payment_id = a.payment_id AND e.id = a.evidence_id
     WHERE a.status >= 50),
unclosed AS (
    SELECT r.payment_id, r.attempt_id
      FROM oncepay.attempt_request r
     WHERE r.kind IN (1, 2)
       AND EXISTS (SELECT FROM ended e WHERE e.id = r.attempt_id AND e.source = 1)
       AND NOT EXISTS (SELECT FROM oncepay.evidence e
                        WHERE e.payment_id = r.payment_id AND e.request_id = r.id
                          AND e.closure = 1)),
bad AS (
    SELECT e.id, CASE WHEN e.evidence_id IS NULL THEN 'it is final without evidence'
                      WHEN e.attempt_id <> e.id THEN 'the evidence of its end is another attempt''s'
                      ELSE 'the evidence of its end does not prove it' END AS what
      FROM ended e
     WHERE e.evidence_id IS NULL OR e.attempt_id <> e.id OR e.proves IS DISTINCT FROM e.certainty
        OR NOT ((e.status = 50 AND e.proves = 5) OR (e.status = 60 AND e.proves IN (2, 3)))
    UNION ALL
    SELECT e.id, 'it ended by our own word although it had left CREATED'
      FROM ended e
      JOIN oncepay.state_history h
        ON h.payment_id = e.payment_id AND h.entity = 2 AND h.id = e.id AND h.version = e.version
     WHERE e.source = 1 AND (h.from_status <> 10 OR e.certainty <> 2)
    UNION ALL
    SELECT u.attempt_id, 'it ended by our own word while a request of it is not proven unsent'
      FROM unclosed u)
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
