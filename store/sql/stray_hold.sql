-- Holds the target of a stray fact: nothing of it is paid until a person has looked.
-- $1 merchant, $2 target kind, $3 target id, $4 payment that the pointer named, $5 its version.
-- -> one row; OP001 if the pointer moved.
WITH held AS (
    UPDATE oncepay.active_payment t
       SET hold = 'stray_fact', version = t.version + 1, updated_at = now()
     WHERE t.merchant = $1::text AND t.target_kind = $2::text AND t.target_id = $3::text
       AND t.payment_id = $4::uuid AND t.version = $5::int4
    RETURNING 1)
SELECT CASE WHEN EXISTS (SELECT FROM held) THEN true
            ELSE oncepay.lost_race('stray fact: the target''s pointer moved') END
