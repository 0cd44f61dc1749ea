-- The next commands of each subject that are old enough to be looked at. $1 subjects, $2 marks, $3 age in ms,
-- $4 rows per subject (rows of one moment stay together), $5 lowest id (prunes partitions; ids of before 2026 are no times).
-- -> place of the subject (from 1), now, id, entity, entity id, version, payment, created_at; by place and created_at;
-- a subject without any has one row with id NULL.
SELECT d.place::int4, now(), o.id, o.entity, o.entity_id, o.version, o.payment_id, o.created_at
  FROM unnest($1::text[], $2::timestamptz[]) WITH ORDINALITY AS d(subject, mark, place)
  LEFT JOIN LATERAL (
        SELECT c.id, c.entity, c.entity_id, c.version, c.payment_id, c.created_at
          FROM oncepay.outbox c
         WHERE c.kind = 1 AND c.subject = d.subject AND c.created_at > d.mark
           AND c.created_at <= now() - $3::int8 * interval '1 millisecond' AND (c.id >= $5::uuid OR c.id < '019b76da-a800-0000-0000-000000000000'::uuid)
         ORDER BY c.created_at FETCH FIRST ($4::int4) ROWS WITH TIES) o ON true
 ORDER BY d.place, o.created_at
