-- Commands of a payment that have not moved what they name for too long. $1 payment.
-- -> stage, account, since, last emitted, next look, emissions
SELECT s.stage, s.channel_account, s.since, s.emitted_at, s.next_at, s.emissions
  FROM oncepay.stuck_command s
 WHERE s.payment_id = $1::uuid
 ORDER BY s.since
