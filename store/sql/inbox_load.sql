-- Webhook events and whom they are about: by PSP object, else by our reference (protocol B6).
-- $1 inbox ids. -> inbox id, account, event id, kind, provider status, object, reference, error code, decline class,
-- amount, currency, handed out, object payable, observed at, digest, excerpt, processed?, attempt (NULL: nobody).
SELECT i.id, i.channel_account, i.event_id, i.kind, i.provider_status, i.provider_object, i.reference, i.error_code,
       i.decline_class, i.amount, i.currency, i.handed_out, i.object_payable, i.observed_at, i.digest, i.excerpt,
       i.processed_at IS NOT NULL, coalesce(o.attempt_id, r.id)
  FROM unnest($1::uuid[]) AS d(id)
  JOIN oncepay.webhook_inbox i ON i.id = d.id
  LEFT JOIN LATERAL (SELECT x.attempt_id FROM oncepay.provider_object x
                      WHERE x.channel_account = i.channel_account AND x.object = i.provider_object) o ON true
  LEFT JOIN LATERAL (SELECT a.id FROM oncepay.payment_attempt a
                      WHERE o.attempt_id IS NULL AND a.channel_account = i.channel_account
                        AND a.provider_key = i.reference) r ON true
