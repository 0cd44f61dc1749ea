-- Stuck work that moved. $1 kinds, $2 entity ids, $3 versions.
DELETE FROM oncepay.stuck_command s
 USING unnest($1::int2[], $2::uuid[], $3::int4[]) AS d(kind, entity_id, version)
 WHERE s.kind = d.kind AND s.entity_id = d.entity_id AND s.version = d.version
