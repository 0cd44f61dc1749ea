-- Which of these commands are known as stuck: their own row decides when they are emitted again.
-- $1 kinds, $2 entity ids, $3 versions. -> place (from 1).
SELECT d.place::int4
  FROM unnest($1::int2[], $2::uuid[], $3::int4[]) WITH ORDINALITY AS d(kind, entity_id, version, place)
 CROSS JOIN LATERAL (SELECT FROM oncepay.stuck_command s
                      WHERE s.kind = d.kind AND s.entity_id = d.entity_id AND s.version = d.version LIMIT 1) k
