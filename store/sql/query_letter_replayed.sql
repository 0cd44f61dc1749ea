-- Notes that a dead letter was published again, and closes its case: should it fail again, that is a new letter with a
-- case of its own. $1 dead letter, $2 who. -> how often by now
WITH r AS (
    UPDATE oncepay.dead_letter d SET replays = d.replays + 1, replayed_at = now()
     WHERE d.id = $1::uuid
    RETURNING d.case_id, d.replays),
c AS (
    UPDATE oncepay.manual_case m
       SET status = 50, version = m.version + 1, closed_at = now(), close_reason = 'replayed by ' || $2::text
      FROM r WHERE m.id = r.case_id AND m.status = 10)
SELECT r.replays FROM r
