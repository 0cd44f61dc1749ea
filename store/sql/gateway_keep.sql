-- Keeps verified webhooks, each with its command to recover, and leaves out those that are kept already: an event id
-- is known for ever. $1 inbox ids, $2 accounts, $3 event ids, $4 kinds, $5 provider statuses, $6 objects,
-- $7 references, $8 error codes, $9 decline classes, $10 amounts (NULL: none), $11 currencies, $12 handed out,
-- $13 object payable, $14 observed at (NULL: none), $15 digests, $16 excerpts, $17 outbox ids, $18 subjects.
-- Sorted by account and event id. -> inbox ids that are new.
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::int2[], $10::int8[], $11::text[], $12::bool[], $13::bool[], $14::timestamptz[],
                         $15::bytea[], $16::text[], $17::uuid[], $18::text[])
               AS d(id, account, event_id, kind, provider_status, provider_object, reference, error_code,
                    decline_class, amount, currency, handed_out, object_payable, observed_at, digest, excerpt,
                    outbox_id, subject)),
kept AS (
    INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id, kind, provider_status, provider_object,
                                       reference, error_code, decline_class, amount, currency, handed_out,
                                       object_payable, observed_at, digest, excerpt)
    SELECT d.id, d.account, d.event_id, d.kind, d.provider_status, d.provider_object, d.reference, d.error_code,
           d.decline_class, d.amount, d.currency, d.handed_out, d.object_payable, d.observed_at, d.digest, d.excerpt
      FROM d
        ON CONFLICT ON CONSTRAINT webhook_inbox_event_key DO NOTHING
    RETURNING id),
told AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, xid)
    SELECT d.outbox_id, 1, d.subject, 6, d.id, 0, NULL, NULL FROM d JOIN kept k ON k.id = d.id)
SELECT id FROM kept
