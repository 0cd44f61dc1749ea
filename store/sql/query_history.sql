-- Every transition of a payment, its attempts and its operations. $1 payment.
-- -> entity, id, version, from, to, event, why, actor, evidence, policy version, routing version, at
SELECT h.entity, h.id, h.version, h.from_status, h.to_status, h.event, h.why, h.actor, h.evidence_id,
       h.policy_version, h.routing_version, h.at
  FROM oncepay.state_history h
 WHERE h.payment_id = $1::uuid
 ORDER BY h.at, h.entity, h.version, h.id
