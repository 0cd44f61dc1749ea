-- The stray facts of a payment: money that moved beside what its rows say. $1 payment.
-- -> fact, attempt, kind, account, provider object, amount, currency, evidence, open?, created_at
SELECT s.id, s.attempt_id, s.kind, s.channel_account, s.provider_object, s.amount, s.currency, s.evidence_id,
       NOT EXISTS (SELECT FROM oncepay.manual_case c
                    WHERE c.attempt_id = s.attempt_id AND c.kind = 3 AND c.status = 50),
       s.created_at
  FROM oncepay.stray_fact s
 WHERE s.payment_id = $1::uuid
 ORDER BY s.created_at, s.id
