-- Holds the targets of payments that end without freeing them, and sets the timers that lift it.
-- First statement of the transaction of settle_move: pointers are locked before payments.
-- $1 payment ids, $2 pointer versions, $3 holds (NULL: the pointer stays), $4 timer ids (NULL: no
-- timer), $5 due times, $6 timer kind.
-- -> one row; OP001 unless every pointer still was at its version.
WITH d AS MATERIALIZED (
    SELECT d.*, p.merchant, p.target_kind, p.target_id
      FROM unnest($1::uuid[], $2::int4[], $3::text[], $4::uuid[], $5::timestamptz[])
               AS d(payment_id, pointer_version, hold, timer_id, due_at)
      JOIN LATERAL (SELECT f.merchant, f.target_kind, f.target_id FROM oncepay.payment f
                     WHERE f.id = d.payment_id LIMIT 1) p ON true
     ORDER BY p.merchant, p.target_kind, p.target_id), -- as intake locks them
held AS (
    UPDATE oncepay.active_payment t
       SET hold = d.hold, version = t.version + 1, updated_at = now()
      FROM d
     WHERE d.hold IS NOT NULL AND t.merchant = d.merchant AND t.target_kind = d.target_kind
       AND t.target_id = d.target_id AND t.payment_id = d.payment_id
       AND t.version = d.pointer_version
    RETURNING t.payment_id),
timed AS (
    INSERT INTO oncepay.payment_timer (id, payment_id, kind, due_at)
    SELECT d.timer_id, d.payment_id, $6::int2, d.due_at FROM d WHERE d.timer_id IS NOT NULL
    ON CONFLICT (payment_id, kind) DO NOTHING)
SELECT CASE WHEN (SELECT count(*) FROM held)
                 = (SELECT count(*) FROM d WHERE d.hold IS NOT NULL) THEN true
            ELSE oncepay.lost_race('settle: a target''s pointer moved') END
