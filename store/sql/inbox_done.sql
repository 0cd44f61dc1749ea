-- Events that were matched and stored as evidence. $1 inbox ids; $2 payments.
-- The second condition on the id is an index condition in whatever order the planner joins.
UPDATE oncepay.webhook_inbox i
   SET processed_at = now(), payment_id = d.payment_id, looks = i.looks + 1
  FROM unnest($1::uuid[], $2::uuid[]) AS d(id, payment_id)
 WHERE i.id = ANY ($1::uuid[]) AND i.id = d.id AND coalesce(i.processed_at, 'infinity') = 'infinity'
