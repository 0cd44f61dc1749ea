-- The late-arrival window of an ended payment has passed: its target may be paid again, unless something else
-- holds it. $1 how many. -> payments whose timer is done.
WITH due AS MATERIALIZED (
    SELECT t.id, t.payment_id FROM oncepay.payment_timer t
     WHERE t.kind = 1 AND t.due_at <= now()
     ORDER BY t.due_at, t.id
     LIMIT $1::int4
       FOR UPDATE SKIP LOCKED
), lifted AS (
    UPDATE oncepay.active_payment a SET hold = NULL, version = a.version + 1, updated_at = now()
      -- The second limit tells the planner how few there are: it takes $1 for a tenth of all.
      FROM (SELECT * FROM due LIMIT 1000) f JOIN oncepay.payment p ON p.id = f.payment_id
     WHERE a.merchant = p.merchant AND a.target_kind = p.target_kind AND a.target_id = p.target_id
       AND a.payment_id = p.id AND a.hold = 'late_arrival'
)
DELETE FROM oncepay.payment_timer t WHERE t.id = ANY (ARRAY(SELECT id FROM due))
RETURNING t.payment_id
