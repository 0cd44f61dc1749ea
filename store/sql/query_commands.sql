-- The commands of a payment. The outbox knows them by subject and time only: a command is written by the transaction
-- that moves something, so at a moment of its history; what was emitted again follows within minutes, and before
-- the next move. $1 payment, $2 subjects that its commands can have. -> command, subject, entity id, version, created_at
WITH m AS MATERIALIZED (
    SELECT x.at, lead(x.at) OVER (ORDER BY x.at) AS next_at
      FROM (SELECT h.at FROM oncepay.state_history h WHERE h.payment_id = $1::uuid
            UNION
            SELECT d.created_at FROM oncepay.routing_decision d WHERE d.payment_id = $1::uuid) x)
SELECT o.id, o.subject, o.entity_id, o.version, o.created_at
  FROM m
 CROSS JOIN unnest($2::text[]) AS s(subject)
 CROSS JOIN LATERAL (
        SELECT f.* FROM oncepay.outbox f
         WHERE f.kind = 1 AND f.subject = s.subject AND f.payment_id = $1::uuid AND f.created_at >= m.at
           AND f.created_at <= m.at + interval '2 minutes' AND (m.next_at IS NULL OR f.created_at < m.next_at)) o
 ORDER BY o.created_at, o.id
