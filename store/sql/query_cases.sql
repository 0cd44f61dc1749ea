-- The cases of a payment, in the order they were opened. $1 payment.
-- -> case, kind, attempt, account, priority, reason, open?, opened_at, closed_at, why closed
SELECT c.id, c.kind, c.attempt_id, c.channel_account, c.priority, c.reason, c.status = 10, c.opened_at, c.closed_at,
       c.close_reason
  FROM oncepay.manual_case c
 WHERE c.payment_id = $1::uuid
 ORDER BY c.opened_at, c.id
