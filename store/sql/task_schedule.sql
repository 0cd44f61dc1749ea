-- What a leased task does next, by CAS: the late worker of a lease that was taken over changes nothing.
-- $1 tasks, sorted; $2 versions; $3 next status (10 READY, 40 ESCALATED); $4 due in ms (NULL: never by itself);
-- $5 steps; $6 stored error; $7 an outcome was stored: claims start anew. -> tasks that moved.
UPDATE oncepay.recovery_task t
   SET status = d.next_status, version = t.version + 1, step = d.step,
       stored_error = t.stored_error OR d.stored_error,
       claims = CASE WHEN d.has_outcome THEN 0 ELSE t.claims END,
       due_at = CASE WHEN d.due_ms IS NULL THEN 'infinity' ELSE now() + d.due_ms * interval '1 millisecond' END,
       escalated_at = CASE WHEN d.next_status = 40 THEN coalesce(t.escalated_at, now()) ELSE t.escalated_at END
  FROM unnest($1::uuid[], $2::int4[], $3::int2[], $4::int8[], $5::int4[], $6::bool[], $7::bool[])
       AS d(task_id, version, next_status, due_ms, step, stored_error, has_outcome)
 -- Neither the join's order nor the index of what is due may turn this into a scan.
 WHERE t.id = ANY ($1::uuid[]) AND t.id = d.task_id AND t.version = d.version AND t.status + 0 = 20
RETURNING t.id
