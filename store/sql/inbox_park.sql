-- Nobody matches yet: look again later, ever more slowly. $1 inbox ids.
-- Not "processed_at IS NULL": that would offer the planner the index of all that waits.
UPDATE oncepay.webhook_inbox i
   SET looks = i.looks + 1, look_at = now() + least(interval '1 hour', interval '1 second' * power(2, least(i.looks, 12)))
 WHERE i.id = ANY ($1::uuid[]) AND coalesce(i.processed_at, 'infinity') = 'infinity'
