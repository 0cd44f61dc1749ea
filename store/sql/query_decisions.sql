-- What route decided for a payment. $1 payment.
-- -> ordinal that it follows, account (NULL: no route), attempt, routing version, reasons (JSON), created_at
SELECT d.follows, d.channel_account, a.id, d.routing_version, d.reasons::text, d.created_at
  FROM oncepay.routing_decision d
  LEFT JOIN oncepay.payment_attempt a
    ON a.payment_id = d.payment_id AND a.operation = 1 AND a.ordinal = d.follows + 1
 WHERE d.payment_id = $1::uuid
 ORDER BY d.follows
