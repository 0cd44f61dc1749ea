-- Ends leased tasks whose one look is done. $1 tasks; $2 versions.
UPDATE oncepay.recovery_task t SET status = 50, version = t.version + 1
  FROM unnest($1::uuid[], $2::int4[]) AS d(task_id, version)
 -- Neither the join's order nor the index of what is due may turn this into a scan.
 WHERE t.id = ANY ($1::uuid[]) AND t.id = d.task_id AND t.version = d.version AND t.status + 0 = 20
