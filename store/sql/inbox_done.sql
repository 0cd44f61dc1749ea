-- Events that were matched, stored as evidence and applied: what had to move its attempt must have moved it in this
-- transaction, else it is judged again, by whoever still has it or at the next look. $1 inbox ids; $2 payments;
-- $3 attempts; $4 attempt versions that they made (0: nothing to move); $5 evidence that the move cites.
-- The second condition on the id is an index condition in whatever order the planner joins.
UPDATE oncepay.webhook_inbox i
   SET processed_at = now(), payment_id = d.payment_id, looks = i.looks + 1
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int4[], $5::uuid[])
       AS d(id, payment_id, attempt_id, version, evidence_id)
 WHERE i.id = ANY ($1::uuid[]) AND i.id = d.id AND coalesce(i.processed_at, 'infinity') = 'infinity'
   AND (d.version = 0
        OR 1 = (SELECT count(*) FROM oncepay.state_history h
                 WHERE h.payment_id = d.payment_id AND h.entity = 2 AND h.id = d.attempt_id AND h.version = d.version
                   AND h.evidence_id = d.evidence_id))
