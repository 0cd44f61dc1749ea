-- Stuck commands that are due for a look. $1 how many.
-- -> kind, entity id, version, payment, subject, emitted_at, emissions.
SELECT s.kind, s.entity_id, s.version, s.payment_id, s.subject, s.emitted_at, s.emissions
  FROM oncepay.stuck_command s
 WHERE s.next_at <= now()
 ORDER BY s.next_at, s.kind, s.entity_id, s.version LIMIT $1::int4
