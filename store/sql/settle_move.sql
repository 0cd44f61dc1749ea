-- Moves payments by their versions: each end or news once, with its history row and its event.
-- $1 payment ids, $2 versions read, $3 statuses read, $4 next statuses, $5 certainties, $6 reasons,
-- $7 announced, $8 authorised, $9 captured, $10 next actions (JSON), $11 applied attempts (NULL: as
-- before), $12 applied versions, $13 history events, $14 whys, $15 evidence ids, $16 must move (its
-- pointer was held in this transaction), $17 outbox ids (NULL: no event), $18 subjects, $19 bodies,
-- $20 headers; $21 actor.
-- -> the payments that moved (one NULL if none did); OP001 if one that must did not.
WITH d AS MATERIALIZED (
    SELECT *
      FROM unnest($1::uuid[], $2::int4[], $3::int2[], $4::int2[], $5::int2[], $6::text[],
                  $7::int2[], $8::int8[], $9::int8[], $10::text[], $11::uuid[], $12::int4[],
                  $13::text[], $14::text[], $15::uuid[], $16::bool[], $17::uuid[], $18::text[],
                  $19::bytea[], $20::text[])
        AS d(payment_id, read_version, from_status, next_status, certainty, reason, announced,
             authorised, captured, next_action, applied_attempt, applied_version, event, why,
             evidence_id, must_move, outbox_id, subject, body, headers)),
moved AS (
    UPDATE oncepay.payment p
       SET status = d.next_status, version = p.version + 1, certainty = d.certainty,
           reason = d.reason, announced = d.announced, authorised = d.authorised,
           captured = d.captured, next_action = d.next_action::jsonb,
           applied_attempt = coalesce(d.applied_attempt, p.applied_attempt),
           applied_version = CASE WHEN d.applied_attempt IS NULL THEN p.applied_version
                                  ELSE d.applied_version END,
           history_hash = oncepay.history_link(p.history_hash, 1::int2, p.id, p.version + 1,
                                               p.status, d.next_status, d.event, d.why,
                                               $21::text, d.evidence_id, now())
      FROM d
     WHERE p.id = d.payment_id AND p.version = d.read_version AND p.status = d.from_status
    RETURNING p.id, p.version, d.from_status, d.next_status,
              d.event, d.why, d.evidence_id, d.must_move, d.outbox_id, d.subject, d.body,
              d.headers,
              (SELECT o.history_hash FROM oncepay.payment o WHERE o.id = p.id) AS prev_hash),
history AS (
    INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, to_status,
                                       event, why, actor, evidence_id, prev_hash)
    SELECT m.id, 1, m.id, m.version, m.from_status, m.next_status, m.event, m.why, $21::text,
           m.evidence_id, m.prev_hash
      FROM moved m),
announced AS (
    INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, body,
                                headers)
    SELECT m.outbox_id, 2, m.subject, 1, m.id, m.version, m.id, m.body, m.headers
      FROM moved m
     WHERE m.outbox_id IS NOT NULL),
checked AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM moved WHERE must_move)
                     = (SELECT count(*) FROM d WHERE must_move) THEN true
                ELSE oncepay.lost_race('settle: a payment with a hold moved') END AS is_whole)
SELECT m.id FROM checked c LEFT JOIN moved m ON true WHERE c.is_whole
