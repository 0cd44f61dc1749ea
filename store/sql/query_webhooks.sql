-- Signed events of the PSP about a payment: those that became evidence, and those that wait and name it. $1 payment.
-- -> inbox id, account, event id, kind, provider status, object, received_at, processed_at, when it is looked at
SELECT i.id, i.channel_account, i.event_id, i.kind, i.provider_status, i.provider_object, i.received_at,
       i.processed_at, i.look_at
  FROM (SELECT DISTINCT a.channel_account, e.provider_event
          FROM oncepay.payment_attempt a
          JOIN oncepay.evidence e ON e.payment_id = a.payment_id AND e.attempt_id = a.id
         WHERE a.payment_id = $1::uuid AND e.provider_event IS NOT NULL) x
  JOIN LATERAL (SELECT f.* FROM oncepay.webhook_inbox f
                 WHERE f.channel_account = x.channel_account AND f.event_id = x.provider_event LIMIT 1) i ON true
UNION
SELECT i.id, i.channel_account, i.event_id, i.kind, i.provider_status, i.provider_object, i.received_at,
       i.processed_at, i.look_at
  FROM oncepay.payment_attempt a
  JOIN oncepay.webhook_inbox i
    ON i.processed_at IS NULL AND i.channel_account = a.channel_account
   AND (i.reference = a.provider_key OR i.provider_object = a.provider_payment_id)
 WHERE a.payment_id = $1::uuid
 ORDER BY 7, 1
