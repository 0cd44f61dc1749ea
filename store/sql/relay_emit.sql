-- Commands once more, each a new row. $1 ids, $2 subjects, $3 entities, $4 entity ids, $5 versions, $6 payments.
INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
SELECT d.id, 1, d.subject, d.entity, d.entity_id, d.version, d.payment_id, NULL::xid8
  FROM unnest($1::uuid[], $2::text[], $3::int2[], $4::uuid[], $5::int4[], $6::uuid[])
       AS d(id, subject, entity, entity_id, version, payment_id)
 ORDER BY d.id
