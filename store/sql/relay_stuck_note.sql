-- Commands that have waited too long and were just emitted again. $1 kinds, $2 entity ids, $3 versions, $4 payments,
-- $5 subjects, $6 stages, $7 accounts, $8 payment states, $9 since, $10 wait before the next look in ms.
INSERT INTO oncepay.stuck_command (kind, entity_id, version, payment_id, subject, stage, channel_account, state,
                                   since, emitted_at, next_at)
SELECT d.kind, d.entity_id, d.version, d.payment_id, d.subject, d.stage, d.account, d.state, d.since, now(),
       now() + $10::int8 * interval '1 millisecond'
  FROM unnest($1::int2[], $2::uuid[], $3::int4[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::int2[],
              $9::timestamptz[])
       AS d(kind, entity_id, version, payment_id, subject, stage, account, state, since)
 ORDER BY d.kind, d.entity_id, d.version
    ON CONFLICT ON CONSTRAINT stuck_command_pk DO NOTHING
