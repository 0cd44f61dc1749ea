-- tests/store/mutants.sql: bugs planted into statements, for tests/store/mutants.py. Each must make the named store
-- test fail on a real server:
--   mutant WORD TEST STATEMENT: what it does; the text that is replaced; "stands", and what stands there then.
-- TEST is a program of tests/store. STATEMENT "schema": what stands is run after the migrations instead.

-- mutant ignore_version attempt_test attempt_result: a result is written whatever version was judged
AND a.version = d.version AND a.status = d.from_status AND d.next_status IS NOT NULL
-- stands
AND d.next_status IS NOT NULL

-- mutant loser_history attempt_test attempt_result: history for those who lose the CAS
    SELECT payment_id, 2, id, version, from_status, next_status, event, why, $39::text, evidence_id, policy_version,
           prev_hash, now()
      FROM moved
-- stands
    SELECT payment_id, 2, attempt_id, version + 1, from_status, next_status, event, why, $39::text, evidence_id,
           policy_version, decode(repeat('00', 32), 'hex'), now()
      FROM d WHERE next_status IS NOT NULL

-- mutant claim_unseen two_sessions_test attempt_result: a decline ends what was replayed since it was judged
       AND t.version = coalesce(m.task_version, t.version)
-- stands


-- mutant loser_is_done two_sessions_test inbox_done: a webhook whose finding lost the CAS counts as processed
   AND (d.version = 0
-- stands
   AND (true

-- mutant skip_fence two_sessions_test attempt_fence: both of two workers believe that they fenced it
AND a.version = seen.version AND a.status = 10 AND seen.outcome = 1
-- stands
AND seen.outcome = 1

-- mutant held_is_sent attempt_test attempt_fence: a create passes the fence although its target is held
                WHEN t.hold IS NOT NULL THEN 4
-- stands


-- mutant late_start attempt_test attempt_fence: a create passes the fence after its start_by
                WHEN p.start_by <= now() OR p.expires_at <= now() THEN 3
-- stands


-- mutant fence_of_others attempt_test fence_claim: an old fence takes over what a later one sends
ON r.started_at <= c.created_at)
-- stands
ON true)

-- mutant forget_earlier attempt_test attempt_load: the judge does not hear of earlier requests
                                      AND x.is_closed IS NULL) AS open_requests
-- stands
                                      AND x.is_closed) AS open_requests

-- mutant trust_lease two_sessions_test task_pick: a task is claimed while its lease runs
 AND status IN (10, 20, 40) AND due_at <= now()
-- stands
 AND status IN (10, 20, 40)

-- mutant two_active intake_batch_test intake_accept: a busy target is paid a second time
AND a.payment_id = t.pointer_payment AND a.version = t.pointer_version AND a.hold IS NULL
-- stands


-- mutant hold_ignored intake_batch_test intake_accept: a held target is paid again
a.version = t.pointer_version AND a.hold IS NULL
-- stands
a.version = t.pointer_version

-- mutant keys_unsorted intake_batch_test intake_accept: expired keys are locked as the batch comes
      FROM d WHERE d.key_is_expired ORDER BY d.merchant, d.key_hash
-- stands
      FROM d WHERE d.key_is_expired

-- mutant refusal_anew intake_batch_test intake_answer: a live key's answer is written over
     WHERE i.expires_at <= now()
-- stands
     WHERE true

-- mutant apply_twice settle_test settle_move: an end is applied to a payment that has moved
AND p.version = d.read_version AND p.status = d.from_status
-- stands


-- mutant relay_by_id relay_test relay_events: what commits late under a lower number is never read
              WHERE pg_visible_in_snapshot(x.xid, s.snapshot))
-- stands
              WHERE false)

-- mutant relay_by_xmin relay_test relay_events_before: what a page cut off is not read with it
AND f.payment_id = d.payment_id AND f.version > 0 AND f.version < d.version
-- stands
AND false

-- mutant terminal_moves guards_refusal_test schema: a final attempt can be changed
-- stands
ALTER TABLE oncepay.payment_attempt DISABLE TRIGGER USER

-- mutant pointer_unguarded guards_refusal_test schema: a payment is born that its target's pointer does not name
-- stands
ALTER TABLE oncepay.payment DISABLE TRIGGER USER
