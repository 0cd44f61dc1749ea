-- Nobody matches yet: look again later, ever more slowly. $1 inbox ids.
UPDATE oncepay.webhook_inbox i
   SET looks = i.looks + 1, look_at = now() + least(interval '1 hour', interval '1 second' * power(2, least(i.looks, 12)))
  FROM unnest($1::uuid[]) AS d(id)
 WHERE i.id = d.id AND i.processed_at IS NULL
