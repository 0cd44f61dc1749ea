-- The attempts of a payment, oldest first. $1 payment.
-- -> 0 attempt, 1 operation, 2 number, 3 ordinal, 4 account, 5 amount, 6 currency, 7 provider key, 8 provider object,
--    9 status, 10 certainty, 11 decline class, 12 error code, 13 evidence, 14 handed out, 15 policy version,
--    16 routing version, 17 guard decision, 18 first fence, 19 version, 20 created_at, 21 method type,
--    22 when recover takes over its fence (NULL: no fence is open)
SELECT a.id, a.operation, a.number, a.ordinal, a.channel_account, a.amount, a.currency, a.provider_key,
       a.provider_payment_id, a.status, a.certainty, a.decline_class, a.error_code, a.evidence_id, a.handed_out,
       a.policy_version, a.routing_version, a.guard_decision, a.first_sent_at, a.version, a.created_at, a.method_type,
       f.due_at
  FROM oncepay.payment_attempt a
  LEFT JOIN LATERAL (SELECT b.due_at FROM oncepay.fence_batch b
                      WHERE a.status = 20 AND b.channel_account = a.channel_account AND a.id = ANY (b.attempts)
                      ORDER BY b.due_at LIMIT 1) f ON true
 WHERE a.payment_id = $1::uuid
 ORDER BY a.operation, a.number, a.ordinal
