-- Stuck work that was looked at: emitted again, ever more slowly, or its message still waits.
-- $1 kinds, $2 entity ids, $3 versions, $4 emitted?, $5 payment states, $6 first wait in ms, $7 longest wait in ms.
UPDATE oncepay.stuck_command s
   SET emitted_at = CASE WHEN d.is_emitted THEN now() ELSE s.emitted_at END,
       emissions = s.emissions + CASE WHEN d.is_emitted THEN 1 ELSE 0 END,
       state = d.state,
       next_at = now() + least($7::int8, $6::int8 * power(2, least(s.emissions, 16))) * interval '1 millisecond'
  FROM unnest($1::int2[], $2::uuid[], $3::int4[], $4::bool[], $5::int2[])
       AS d(kind, entity_id, version, is_emitted, state)
 WHERE s.kind = d.kind AND s.entity_id = d.entity_id AND s.version = d.version
